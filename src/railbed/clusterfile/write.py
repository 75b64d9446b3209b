"""A cluster as a file that is pleasant to read and edit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from railbed.clusterfile.values import Plain, plain
from railbed.model.cluster import Cluster

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
    return text if bare and text.lower() not in AMBIGUOUS_WORDS else f'"{"".join(map(_escaped, text))}"'


def _fits(value: Mapping[str, Plain], column: int) -> bool:
    return "host" not in value and column + len(flow(dict(value))) < WIDTH


def _escaped(character: str) -> str:
    if character in {'"', "\\"}:
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
