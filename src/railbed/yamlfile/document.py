"""YAML text as plain values, with the line of every key.

The text is composed to YAML's own nodes and read from there, not through a loader: nodes have an exact position, keys
keep their text as typed (a node may be called `1` or `on`), and the values can only be text, numbers, true,
false, lists and maps.

Files that would crash the parser or keep it busy for minutes are refused before they are parsed. Syntax errors are
plain sentences that never repeat text of the file: that could be a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import KeyPath, Mistake, refusal

SENTENCES = (
    ("maximum depth", "nested too deeply"),
    ("found character '\\t'", "a tab; YAML requires spaces"),
    ("cannot start any token", "a value that begins with this character needs quotes"),
    ("but found another document", "a second document begins here; {noun} has only one"),
    ("undefined alias", "a value that begins with * is taken for an alias; put it in quotes"),
    ("duplicate anchor", "anchors (&) are not used in {noun}; write the value out"),
    ("mapping values are not allowed here", "a key is not allowed here: look at the indentation, and at : in values"),
    ("sequence entries are not allowed here", "a list entry is not allowed here: look at the indentation"),
    ("unknown escape character", "a backslash in double quotes must not come before this character; use '…'"),
    ("end of stream", "quotes are opened and never closed"),
    ("expected ',' or ']'", "a list is opened with [ and not closed, or a comma is missing"),
    ("expected ',' or '}'", "a map is opened with { and not closed, or a comma is missing"),
    ("expected <block end>", "this line does not line up with those before it: look at the indentation"),
    ("could not find expected ':'", "a : is missing after a key"),
    ("tag", "a value that begins with ! is taken for a tag; put it in quotes"),
    ("anchor", "a value that begins with & is taken for an anchor; put it in quotes"),
    ("alias", "a value that begins with * is taken for an alias; put it in quotes"),
    ("version", "only YAML 1.2 is supported; remove the %YAML line"),
)
"""Part of the parser's message, and a sentence for the user; the first match counts."""

OPENED_EARLIER = ("end of stream", "expected ',' or", "could not find expected ':'")
"""Problems that the parser detects late: the line where they began is reported."""


def syntax_mistake(text: str, error: YAMLError, noun: str) -> Mistake:
    """Return the parser's error as a mistake of the file."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Mistake(f"a control character; {noun} is plain text", line)
    if not isinstance(error, MarkedYAMLError):
        return Mistake("not YAML")
    words = f"{error.problem or ''} {error.context or ''}"
    sentence = next(
        (sentence for piece, sentence in SENTENCES if piece in words), "not YAML: look at this line and the one before"
    )
    earlier = any(piece in words for piece in OPENED_EARLIER)
    marks = [error.context_mark, error.problem_mark] if earlier else [error.problem_mark, error.context_mark]
    return Mistake(sentence.replace("{noun}", noun), next((mark.line + 1 for mark in marks if mark is not None), 0))


MAX_CHARACTERS = 512 * 1024
"""Five times the size of a file with a thousand nodes. Parsing takes a second per 100 kB."""
MAX_DEPTH = 50

VERSION = re.compile(r"^%YAML[ \t]+(?!1\.[12][ \t\r]*(?:$|#))", re.MULTILINE)
"""A version that the parser does not support; it raises many kinds of exceptions for it."""
OPENING, CLOSING = "[{", "]}"
BRACKET_OR_COMMENT = re.compile(r"[][{}]|(?:^|(?<=\s))#[^\n]*")


def refusal_of(text: str, noun: str) -> Mistake | None:
    """Return why a text is refused without parsing it, or None."""
    if len(text) > MAX_CHARACTERS:
        return too_large(noun)
    if "\0" in text:
        return Mistake(f"a NUL byte; {noun} is plain text", _line(text, text.index("\0")))
    if version := VERSION.search(text):
        return Mistake("only YAML 1.2 is supported; remove the %YAML line", _line(text, version.start()))
    return _nested_too_deeply(text)


def too_large(noun: str) -> Mistake:
    """Return the mistake for a file that is too large for its kind."""
    return Mistake(f"larger than {MAX_CHARACTERS // 1024} KiB, which is too large for {noun}")


def _nested_too_deeply(text: str) -> Mistake | None:
    """Count open brackets: parsing takes quadratic time in their number.

    Brackets inside quotes count as well: no real file has fifty of them open at once.
    """
    depth = 0
    for match in BRACKET_OR_COMMENT.finditer(text):
        if match[0] in OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                return Mistake("nested too deeply", _line(text, match.start()))
        elif match[0] in CLOSING:
            depth = max(0, depth - 1)
    return None


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


YAML_TAG = "tag:yaml.org,2002:"
INTEGER = re.compile(r"[+-]?[0-9][0-9_]{0,99}")
PREFIXED_INTEGER = re.compile(r"0(x[0-9a-fA-F]{1,32}|o[0-7]{1,32})")


@dataclass(frozen=True, slots=True)
class Position:
    """The line of a value; `text` is a scalar as it was typed."""

    line: int
    text: str | None = None


class _Aliased(Exception):
    """Raised at the second use of a node. Aliases are refused: they can expand a small file without limit."""

    def __init__(self, path: KeyPath, line: int) -> None:
        super().__init__()
        self.path = path
        self.line = line


@dataclass(slots=True)
class YamlDocument:
    """A file's values, their positions, and the mistakes found while reading them."""

    root: Node
    noun: str
    value: object = None
    positions: dict[KeyPath, Position] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    _visited: set[int] = field(default_factory=set)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest key above it."""
        while path not in self.positions:
            path = path[:-1]
        return self.positions[path].line

    def read(self, node: Node, path: KeyPath, line: int) -> object:
        """Return the plain value of a node, and note its position."""
        if id(node) in self._visited:
            raise _Aliased(path, line)
        self._visited.add(id(node))
        self.positions[path] = Position(line, node.value if isinstance(node, ScalarNode) else None)
        if isinstance(node, MappingNode) and node.tag == YAML_TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == YAML_TAG + "seq":
            # An alias has the position of its anchor, above the list; the list is nearer.
            lines = [max(item.start_mark.line + 1, line) for item in node.value]
            return [self.read(item, (*path, index), lines[index]) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node, path, line)
        self._refuse_tag(path, line)
        return None

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, object]:
        values: dict[str, object] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                self.mistakes.append(Mistake("a key is a word, not a list or a map", line, path))
            elif key.value in values:
                first = self.positions[(*path, key.value)].line
                self.mistakes.append(Mistake(f"given twice, first in line {first}", line, (*path, key.value)))
            else:
                values[key.value] = self.read(value, (*path, key.value), line)
        return values

    def _scalar(self, node: ScalarNode, path: KeyPath, line: int) -> object:
        match str(node.tag).removeprefix(YAML_TAG):
            case "null":
                return None
            case "bool":
                return node.value.lower() in {"true", "yes", "on", "y"}
            case "int":
                return integer(node.value)
            case "float":
                return decimal(node.value)
            case "str" | "timestamp" | "merge" | "value":
                return node.value
        self._refuse_tag(path, line)
        return None

    def _refuse_tag(self, path: KeyPath, line: int) -> None:
        sentence = f"tags (!) are not used in {self.noun}; a value that begins with ! needs quotes"
        self.mistakes.append(Mistake(sentence, line, path))


def integer(text: str) -> int | str:
    """Return the number, or the text if the form is not supported (base 60, thousands of digits)."""
    if INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    return int(text, 0) if PREFIXED_INTEGER.fullmatch(text) else text


def decimal(text: str) -> float | str:
    """Return the number, or the text if Python cannot parse it."""
    try:
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text


def parse(text: str, name: str, kind: FileKind) -> YamlDocument:
    """Return the document of a file's text; raise the kind's error if it is not YAML or not a map at the top."""
    root = compose(text, name, kind)
    if root is None:
        raise refusal(kind, name, [Mistake("the file is empty")], hint=kind.hint)
    document = YamlDocument(root, kind.noun)
    try:
        document.value = document.read(root, (), root.start_mark.line + 1)
    except _Aliased as alias:
        sentence = f"aliases (*) are not used in {kind.noun}; write the value out"
        raise refusal(kind, name, [Mistake(sentence, alias.line, alias.path)]) from None
    if not isinstance(document.value, dict):
        actual = "a list" if isinstance(root, SequenceNode) else "one value"
        sentence = f"expected keys such as {kind.keys} at the top, found {actual}"
        raise refusal(kind, name, [Mistake(sentence, document.line(())), *document.mistakes])
    return document


def compose(text: str, name: str, kind: FileKind) -> Node | None:
    """Return YAML's own nodes; None for an empty file."""
    if obstacle := refusal_of(text, kind.noun):
        raise refusal(kind, name, [obstacle])
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False
    try:
        node: Node | None = yaml.compose(text)
    except YAMLError as error:
        raise refusal(kind, name, [syntax_mistake(text, error, kind.noun)]) from None
    except (ValueError, OverflowError):
        raise refusal(kind, name, [Mistake("not YAML: a number in an escape is out of bounds")]) from None
    except RecursionError:
        raise refusal(kind, name, [Mistake("nested too deeply")]) from None
    except Exception as error:  # the parser validates some input only by assertions and look-ups
        raise refusal(kind, name, [Mistake(f"not YAML that can be read here ({type(error).__name__})")]) from None
    return node


def entries(node: Node) -> dict[str, tuple[ScalarNode, Node]]:
    """Return a mapping node's entries by the text of their keys."""
    return {key.value: (key, value) for key, value in node.value}
