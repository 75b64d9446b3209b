"""Changes in a file that a person wrote: each change touches only its own characters.

The text is edited at the positions of YAML's nodes, not dumped again from a tree, so that comments, quotes, order and
layout stay exactly as they are. The result is read again and compared; a file that cannot be edited this way is written
from scratch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from railbed.clusterfile.read import CLUSTER_FILE, loads
from railbed.clusterfile.write import block, dumps, flow, item_keys, needed_fields, plain, scalar
from railbed.errors import ClusterFileError
from railbed.model.cluster import Cluster, Part
from railbed.yamlfile.document import compose, entries
from railbed.yamlfile.read import BYTE_ORDER_MARK

Values = Mapping[str, object]
COMMA = re.compile(r"\s*,\s*")


class _CannotCut(Exception):
    """Raised if the layout of the file has no position for an edit."""


def rewrite(text: str, after: Cluster, *, name: str = "cluster.yaml") -> str:
    """Return the file's text edited to describe `after`; raise ClusterFileError if it does not load."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    before = loads(text, name=name)
    changed = _cut(text, before, after, name)
    if changed is None:
        changed = dumps(after)
        loads(changed, name=name)
    return changed


def _cut(text: str, before: Cluster, after: Cluster, name: str) -> str | None:
    """Return the edited text; None if it would not describe `after`."""
    root = compose(text, name, CLUSTER_FILE)
    assert root is not None
    editor = _Editor(text)
    try:
        editor.change(root, before, after)
        changed = editor.result()
        return changed if loads(changed, name=name) == after else None
    except (_CannotCut, ClusterFileError):
        return None


@dataclass(slots=True)
class _Editor:
    """Collects edits of the text: start, end, and the replacement."""

    text: str
    cuts: list[tuple[int, int, str]] = field(default_factory=list)

    def result(self) -> str:
        """Return the edited text; of two insertions at one position, the inner one comes first."""
        text = self.text
        order = sorted(range(len(self.cuts)), key=lambda number: (*self.cuts[number][:2], number), reverse=True)
        for start, end, instead in (self.cuts[number] for number in order):
            text = text[:start] + instead + text[end:]
        return text

    def change(self, node: Node, before: object, after: object) -> None:
        """Edit a node so that it describes `after` in place of `before`."""
        match node, before, after:
            case MappingNode(), Part(), Part():
                self._mapping(node, dict(before), dict(after), needed_fields(after))
            case MappingNode(), Mapping(), Mapping():
                self._mapping(node, before, after, after)
            case SequenceNode(), tuple(), tuple():
                self._sequence(node, before, after)
            case _:
                newline = "\n" * self.text[: node.end_mark.index].endswith("\n")
                self.cuts.append((node.start_mark.index, node.end_mark.index, flow(plain(after)) + newline))

    def _mapping(self, node: MappingNode, before: Values, after: Values, required: Values) -> None:
        """Change a map; values that are equal stay as typed, even if they are defaults."""
        typed = entries(node)
        changed = [key for key in typed if before.get(key) != after.get(key)]
        empty = [key for key in changed if key in required and _is_empty(typed[key][1])]
        gone = [key for key in changed if key not in required and not _is_setting(after.get(key))]
        new = {key: value for key, value in required.items() if key not in typed or key in empty}
        for key in changed:
            if key not in (*gone, *empty):
                self.change(typed[key][1], before[key], after[key])
        if node.flow_style:
            self._flow_entries(node, [*gone, *empty], new)
            return
        for key in (*gone, *empty):
            self._remove(node, key)
        if new:
            self._add(node, new)

    def _flow_entries(self, node: MappingNode, gone: Sequence[str], new: Values) -> None:
        """Remove entries from `{…}`, each with one comma, and add new ones after the last; comments stay."""
        at, comma = node.start_mark.index + 1, ""
        end = at
        for key, (key_node, value) in entries(node).items():
            start, before, end = key_node.start_mark.index, end, _end(value, key_node)
            if key not in gone:
                at, comma = end, ", "
            elif comma and COMMA.fullmatch(self.text, before, start):
                self.cuts.append((before, end, ""))
            else:
                behind = COMMA.match(self.text, end)
                end = behind.end() if behind else end
                self.cuts.append((start, end, ""))
        if new:
            added = ", ".join(f"{scalar(key)}: {flow(plain(value))}" for key, value in new.items())
            self.cuts.append((at, at, comma + added))

    def _add(self, node: MappingNode, new: Values) -> None:
        """Add entries below the last one, with the indent of the first; a new section gets a blank line."""
        at = self._line_after(_end(node))
        indent = node.start_mark.column
        before = "" if self.text[:at].endswith("\n") else "\n"
        for key, value in new.items():
            lines = "".join(f"{line}\n" for line in block({key: plain(value)}, indent))
            before += ("\n" if indent == 0 else "") + lines
        self.cuts.append((at, at, before))

    def _remove(self, node: MappingNode, key: str) -> None:
        """Remove an entry's lines. Comments above it stay: somebody wrote them."""
        key_node, value = entries(node)[key]
        start, line_start = key_node.start_mark.index, self._line_start(key_node.start_mark.index)
        if self.text[line_start:start].strip():
            following = [other.start_mark.index for other, _ in node.value if other.start_mark.index > start]
            if not following:
                raise _CannotCut
            self.cuts.append((start, following[0], ""))
            return
        self.cuts.append((line_start, self._line_after(_end(value, key_node)), ""))

    def _sequence(self, node: SequenceNode, before: tuple[Part | str, ...], after: tuple[Part | str, ...]) -> None:
        """Change items in place if the list has the same items, otherwise rebuild it from its pieces."""
        if item_keys(before) == item_keys(after):
            for item, old, new in zip(node.value, before, after, strict=True):
                if old != new:
                    self.change(item, old, new)
            return
        typed = list(zip(before, node.value, strict=True))
        wanted = [(_take(typed, new), flow(plain(new))) for new in after]
        if node.flow_style:
            pieces = [self.text[item.start_mark.index : _end(item)] if item else text for item, text in wanted]
            self.cuts.append((node.start_mark.index, node.end_mark.index, f"[{', '.join(pieces)}]"))
            return
        self._block_sequence(node, wanted)

    def _block_sequence(self, node: SequenceNode, wanted: list[tuple[Node | None, str]]) -> None:
        start = self._line_start(node.start_mark.index)
        margin = self.text[start : node.start_mark.index]
        while self.text[self._line_start(start - 1) : start].lstrip().startswith("#"):
            start = self._line_start(start - 1)
        end = self._line_after(_end(node))
        comments, pieces = self._pieces(node, start)
        lines = "".join(pieces[id(item)] if item else f"{margin}- {text}\n" for item, text in wanted)
        left = "".join(text for key, text in comments.items() if key not in {id(item) for item, _ in wanted})
        self.cuts.append((start, end, left + lines))

    def _pieces(self, node: SequenceNode, start: int) -> tuple[dict[int, str], dict[int, str]]:
        """Return, by item, the comment lines above it, and those together with its own lines."""
        comments, pieces = {}, {}
        for item in node.value:
            own = self._line_start(item.start_mark.index)
            end = self._line_after(_end(item))
            comments[id(item)] = self.text[start:own]
            pieces[id(item)] = self.text[start:end] + "\n" * (not self.text[:end].endswith("\n"))
            start = end
        return comments, pieces

    def _line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _line_after(self, index: int) -> int:
        """Return where the next line begins after something that ends at an index."""
        if self.text[:index].endswith("\n"):
            return index
        end = self.text.find("\n", index)
        return len(self.text) if end < 0 else end + 1


def _take(typed: list[tuple[Part | str, Node]], wanted: Part | str) -> Node | None:
    """Remove and return the typed item that equals the wanted one."""
    for index, (part, node) in enumerate(typed):
        if part == wanted:
            del typed[index]
            return node
    return None


def _is_setting(value: object) -> bool:
    """Whether a default is written out in place of a typed value: `pfc: true` is, an empty list is not."""
    return isinstance(value, bool | int | float | str)


def _is_empty(node: Node) -> bool:
    return not node.value


def _end(node: Node, key: Node | None = None) -> int:
    """Return where the text of a node ends; the end mark of a block comes after the comments that follow it."""
    if isinstance(node, ScalarNode):
        nothing = key is not None and node.start_mark.index == node.end_mark.index
        return int((key if key is not None and nothing else node).end_mark.index)
    if not isinstance(node, MappingNode | SequenceNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1], last[0]) if isinstance(node, MappingNode) else _end(last)
