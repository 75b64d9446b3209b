"""Pause frames of a Nexus by port and priority (`show interface priority-flow-control detail`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import PORT_NAME, content, port_name
from railbed.parsing.text import integer

PORT = re.compile(rf"({PORT_NAME.pattern}):?")
COUNTS = re.compile(r"(Rx|Tx)\s*+\|(.*)")
FIRST = "Admin Mode:"
KNOWN = ("Oper Mode:", "VL bitmap:", "Total Rx PFC Frames:", "Total Tx PFC Frames:", "|  Priority")
PRIORITIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityFrames:
    """Pause frames of one port, by priority from 0 to 7."""

    received: tuple[int, ...]
    sent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPfcDetail(TextFacts):
    """Pause frames by port."""

    ports: dict[str, PriorityFrames]


def parse(text: str) -> SwitchPfcDetail:
    """Read the text form; NX-OS has no JSON for this command."""
    lines = Lines(text)
    ports = dict(_ports(lines))
    lines.require(ports, "no port")
    return SwitchPfcDetail(ports=ports, not_understood=lines.not_understood)


def _ports(lines: Lines) -> Iterator[tuple[str, PriorityFrames]]:
    name, counts = "", dict[str, tuple[int, ...]]()
    is_begun = False
    for line in content(lines):
        if port := PORT.fullmatch(line):
            name, counts, is_begun = port[1], {}, False
        elif (match := COUNTS.fullmatch(line)) and name and match[1] not in counts:
            with lines.reading(line):
                counts[match[1]] = _counts(match[2])
                if len(counts) == 2:
                    yield port_name(name), PriorityFrames(received=counts["Rx"], sent=counts["Tx"])
        elif line.startswith(FIRST):
            # At the second, the name of another port was not recognised.
            name, is_begun = "" if is_begun else name, True
        elif not line.startswith(KNOWN):
            lines.unknown(line)


def _counts(cells: str) -> tuple[int, ...]:
    counts = tuple(integer(cell) for cell in cells.rstrip("| ").split("|"))
    if len(counts) != PRIORITIES:
        raise ParseError("expected eight priorities", line=cells)
    return counts


PROBE = Probe(
    name="nexus_pfc_detail",
    title="pause frames of a Nexus by port and priority",
    command="show interface priority-flow-control detail",
    parse=parse,
    facts=SwitchPfcDetail,
    runs_on="switch",
    twice=True,
)
