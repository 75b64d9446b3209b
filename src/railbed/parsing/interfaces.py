"""What probes of all network interfaces share: the shell loop, and ethtool's messages for unsupported queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent

from railbed.errors import ParseError
from railbed.parsing.text import sections

NOT_SUPPORTED = re.compile(
    r"^(Cannot (get|read|dump) .*|netlink (error|warning): .*|No data available|no (stats|feature info) available"
    r"|Operation not supported)$"
)
"""What ethtool prints if a driver does not support a query: a fact about the driver, not a parse error."""

TITLE = re.compile(r"^(Settings|Pause parameters|Features|Offload parameters) for (?P<name>\S+):\s*$")


def for_each_interface(command: str) -> str:
    """Return a shell loop that runs a command for every interface but loopback; `$name` is the interface."""
    return (
        "for path in /sys/class/net/*; do name=${path##*/}; "
        'if [ "$name" = lo ] || [ ! -e "$path/ifindex" ]; then continue; fi; '
        f'echo "==> $name <=="; {command} 2>&1; done; true'
    )


def answers(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each interface with the lines that ethtool printed for it, without empty lines and unsupported queries.

    The output of an interface may be empty; an empty text is an error. Saved without our header, most output of ethtool
    names the interface in its title, so that several may follow each other.
    """
    if not text.strip():
        raise ParseError("nothing was printed")
    for name, part in sections(text):
        lines = [line for line in dedent(part).splitlines() if line.strip() and not NOT_SUPPORTED.match(line.strip())]
        if name:
            yield name, lines
        else:
            yield from _by_title(lines)


def _by_title(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    titles = [(number, match["name"]) for number, match in enumerate(map(TITLE.match, lines)) if match]
    if not titles or titles[0][0] > 0:
        yield "", lines
        return
    for (start, name), (end, _) in pairwise([*titles, (len(lines), "")]):
        yield name, lines[start:end]


def without_title(lines: list[str], title: str) -> list[str]:
    """Return the lines after the title; an interface without output has no title."""
    if lines and not lines[0].startswith(title):
        raise ParseError(f"expected {title!r}", line=lines[0])
    return lines[1:]


def key_and_value(line: str) -> tuple[str, str]:
    """Split `key: value`."""
    key, colon, value = line.partition(":")
    if not colon:
        raise ParseError("expected `name: value`", line=line)
    return key.strip(), value.strip()


def on_or_off(value: str) -> bool:
    """Read `on` or `off`."""
    if value not in ("on", "off"):
        raise ParseError("expected on or off", line=value)
    return value == "on"
