"""FEC of the ports of a Nexus, as set and in operation (`show interface fec`, or lines of `show interface`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts, plain_lines
from railbed.parsing.nexus.answer import NO_VALUE, port_name
from railbed.parsing.nexus.port_blocks import port_blocks

ROW = re.compile(r"(\S+)\s+0x[0-9a-f]+\s+(\S+)\s+(\S+)\s+\S.*", re.ASCII)
HEADING = re.compile(r"Name\s+Ifindex\s+Admin-fec\s+Oper-fec\b.*", re.IGNORECASE)
STATE = re.compile(r"admin fec state is (\S+), oper fec state is (\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchFec:
    """FEC of one port, as the switch writes it; None if it does not show it."""

    admin: str | None = None
    """`auto`, `rs-fec`, `fc-fec`, `off`, …"""
    operational: str | None = None
    """`auto` while there is no link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchFecs(TextFacts):
    """FEC by port."""

    ports: dict[str, SwitchFec]


def parse(text: str) -> SwitchFecs:
    """Read the table, or the ports of `show interface`."""
    lines = Lines(text)
    is_table = any(HEADING.fullmatch(line.strip()) for line in plain_lines(text))
    ports = (
        dict(_of_table(lines)) if is_table else {port_name(name): _of(block) for name, _, block in port_blocks(lines)}
    )
    lines.require(ports, "no port")
    return SwitchFecs(ports=ports, not_understood=lines.not_understood)


def _of_table(lines: Lines) -> Iterator[tuple[str, SwitchFec]]:
    for line in lines:
        words = line.strip()
        if row := ROW.fullmatch(words):
            yield port_name(row[1]), SwitchFec(admin=_state(row[2]), operational=_state(row[3]))
        elif not HEADING.fullmatch(words):
            lines.unknown(line)


def _of(block: list[str]) -> SwitchFec:
    state = next(filter(None, map(STATE.fullmatch, block)), None)
    return SwitchFec(admin=_state(state[1]), operational=_state(state[2])) if state else SwitchFec()


def _state(word: str) -> str | None:
    return None if word.lower() in NO_VALUE else word.lower()


PROBE = Probe(
    name="nexus_fec",
    title="forward error correction of the ports of a Nexus",
    command="show interface fec\nshow interface",
    parse=parse,
    facts=SwitchFecs,
    runs_on="switch",
)
