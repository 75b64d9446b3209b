"""A cluster as a file that is pleasant to read and edit: only what differs from the defaults.

What changed between two clusters is listed key by key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from railbed.model.cluster import Cluster, Part, Port, SwitchPort
from railbed.model.record import Change
from railbed.yamlfile.mistakes import shorten

Plain = bool | int | float | str | list["Plain"] | dict[str, "Plain"]


def plain(value: object) -> Plain:
    """Return a part, or a value in a part, as the file has it."""
    match value:
        case Part():
            return {name: plain(field) for name, field in needed_fields(value).items()}
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case tuple():
            return [plain(item) for item in value]
        case bool() | int() | str():
            return value
        case float():
            return int(value) if value.is_integer() and value < 1e15 else value
    return str(value)


def needed_fields(part: Part) -> dict[str, object]:
    """Return the fields that have to be written: those without a default, and those that differ from it."""
    fields = type(part).model_fields
    values = {name: getattr(part, name) for name in fields}
    return {
        name: value
        for name, value in values.items()
        if fields[name].is_required() or value != fields[name].get_default()
    }


def item_keys(items: tuple[Part | str, ...]) -> list[str]:
    """Return the keys that identify the items of a list: a port's interface, a switch port's name, else the index."""
    keys = [_own_key(item) or str(index) for index, item in enumerate(items)]
    return keys if len(set(keys)) == len(keys) else [str(index) for index in range(len(items))]


def _own_key(item: Part | str) -> str:
    match item:
        case Port():
            return item.netdev
        case SwitchPort():
            return item.name
    return ""


HEADER = """\
# The intended state of this cluster. `railbed check` compares the machines with it.
# It contains only what differs from the defaults.
"""

WIDTH = 110
"""Maps that fit in a line of this width are written on one line."""

PLAIN_WORDS = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+()-]*( [A-Za-z0-9_./@+()-]+)*|~(/[A-Za-z0-9_.@+-]*)+")
DOTTED_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+){2,}(/[0-9]+)?")
AMBIGUOUS_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
"""Words that some version of YAML does not read as text."""


def dumps(cluster: Cluster) -> str:
    """Return the text of a cluster file, with short lines for ports and one blank line between the sections."""
    values = plain(cluster)
    assert isinstance(values, dict)
    return "\n".join([HEADER, *("".join(f"{line}\n" for line in entry(key, values[key], 0)) for key in values)])


def block(values: Mapping[str, Plain], indent: int) -> Iterator[str]:
    """Yield the lines of a map's entries."""
    for key, value in values.items():
        yield from entry(key, value, indent)


def entry(key: str, value: Plain, indent: int) -> Iterator[str]:
    """Yield the lines of one entry: maps of settings in one line, nodes, switches and sections in several."""
    head = f"{' ' * indent}{scalar(key)}:"
    if isinstance(value, list):
        yield head
        yield from (f"{' ' * indent}  - {flow(item)}" for item in value)
    elif isinstance(value, dict) and (indent == 0 or not _fits(value, len(head))):
        yield head
        yield from block(value, indent + 2)
    else:
        yield f"{head} {flow(value)}"


def flow(value: Plain) -> str:
    """Return a value in one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{scalar(key)}: {flow(below)}" for key, below in value.items()) + "}"
        case list():
            return "[" + ", ".join(flow(item) for item in value) + "]"
        case bool():
            return str(value).lower()
        case str():
            return scalar(value)
    return repr(value)


def scalar(text: str) -> str:
    """Return a scalar that every YAML reader reads as text: bare if that is safe, otherwise quoted."""
    bare = PLAIN_WORDS.fullmatch(text) or DOTTED_NUMBERS.fullmatch(text)
    return text if bare and text.lower() not in AMBIGUOUS_WORDS else f'"{"".join(map(_escape, text))}"'


def _fits(value: Mapping[str, Plain], column: int) -> bool:
    return "host" not in value and column + len(flow(dict(value))) < WIDTH


def _escape(character: str) -> str:
    if character in {'"', "\\"}:
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"


TEXT_LENGTH = 100


def difference(before: Cluster, after: Cluster) -> list[Change]:
    """Return the changes that lead from one cluster to the other; none if they are equal.

    Ports are matched by interface, switch ports by name, GPUs by position. Items that only moved give one change
    of the list, with the two orders.
    """
    return list(_changes("", before, after))


def _changes(path: str, before: object, after: object) -> Iterator[Change]:
    if before == after:
        return
    match before, after:
        case Part(), Part():
            yield from _entries(path, dict(before), dict(after), "{path}.{key}")
        case Mapping(), Mapping():
            yield from _entries(path, before, after, "{path}.{key}")
        case tuple(), tuple():
            yield from _items(path, before, after)
        case None, _:
            yield Change(subject=path, action="add", after=_short(after))
        case _, None:
            yield Change(subject=path, action="remove", before=_short(before))
        case _:
            yield Change(subject=path, action="set", before=_short(before), after=_short(after))


def _entries(path: str, before: Mapping[str, object], after: Mapping[str, object], form: str) -> Iterator[Change]:
    for key in [*before, *(key for key in after if key not in before)]:
        below = form.format(path=path, key=key) if path else key
        yield from _changes(below, before.get(key), after.get(key))


def _items(path: str, before: tuple[Part | str, ...], after: tuple[Part | str, ...]) -> Iterator[Change]:
    was, now = dict(zip(item_keys(before), before, strict=True)), dict(zip(item_keys(after), after, strict=True))
    yield from _entries(path, was, now, "{path}[{key}]")
    stayed_then, stayed_now = [key for key in was if key in now], [key for key in now if key in was]
    if stayed_then != stayed_now:
        yield Change(subject=path, action="set", before=", ".join(stayed_then), after=", ".join(stayed_now))


def _short(value: object) -> str:
    written = plain(value)
    return shorten(written if isinstance(written, str) else flow(written), TEXT_LENGTH)
