"""Pause frames of a Nexus by port and priority (`show interface priority-flow-control detail`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import content, port_name
from railbed.parsing.text import integer

PORT = re.compile(r"(\S+):")
COUNTS = re.compile(r"(Rx|Tx)\s*+\|(.*)")
KNOWN = ("Admin Mode:", "Oper Mode:", "VL bitmap:", "Total Rx PFC Frames:", "Total Tx PFC Frames:", "|  Priority")
PRIORITIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityFrames:
    """Pause frames of one port, by priority from 0 to 7."""

    received: tuple[int, ...]
    sent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPfcDetail:
    """Pause frames by port."""

    ports: dict[str, PriorityFrames]


def parse(text: str) -> SwitchPfcDetail:
    """Read the text form; NX-OS has no JSON for this command."""
    ports = dict(_ports(text))
    if not ports:
        raise ParseError("no port", line=text.strip()[:80])
    return SwitchPfcDetail(ports=ports)


def _ports(text: str) -> Iterator[tuple[str, PriorityFrames]]:
    name, counts = "", dict[str, tuple[int, ...]]()
    for line in map(str.strip, content(text)):
        if port := PORT.fullmatch(line):
            name, counts = port[1], {}
        elif match := COUNTS.fullmatch(line):
            counts[match[1]] = _counts(match[2])
            if len(counts) == 2 and name:
                yield port_name(name), PriorityFrames(received=counts["Rx"], sent=counts["Tx"])
        elif not line.startswith(KNOWN):
            raise ParseError("expected the pause frames of a port", line=line)


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
