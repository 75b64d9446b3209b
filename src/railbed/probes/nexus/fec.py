"""FEC of the ports of a Nexus, as set and in operation (`show interface fec`, or lines of `show interface`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import NO_VALUE, port_name

ROW = re.compile(r"(\S+)\s+0x[0-9a-f]+\s+(\S+)\s+(\S+)\s+\S.*", re.ASCII)
HEADING = re.compile(r"Name\s+Ifindex\s+Admin-fec\s+Oper-fec\b.*", re.IGNORECASE)
PORT = re.compile(r"([A-Za-z][A-Za-z-]*[\d/.]+) is (?:\S.*)", re.ASCII)
STATE = re.compile(r"admin fec state is (\S+), oper fec state is (\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchFec:
    """FEC of one port, as the switch writes it; None if it does not show it."""

    admin: str | None = None
    """`auto`, `rs-fec`, `fc-fec`, `off`, …"""
    operational: str | None = None
    """`auto` while there is no link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchFecs:
    """FEC by port."""

    ports: dict[str, SwitchFec]


def parse(text: str) -> SwitchFecs:
    """Read the table, or the ports of `show interface`; lines about anything else do not matter."""
    ports: dict[str, SwitchFec] = {}
    is_table, port = False, ""
    for line in text.split("\n"):
        words = line.strip()
        is_table = is_table or HEADING.fullmatch(words) is not None
        if is_table and (row := ROW.fullmatch(words)):
            ports[port_name(row[1])] = SwitchFec(admin=_state(row[2]), operational=_state(row[3]))
        elif not line.startswith(" ") and (header := PORT.fullmatch(words)):
            port = port_name(header[1])
            ports.setdefault(port, SwitchFec())
        elif port and (state := STATE.fullmatch(words)):
            ports[port] = SwitchFec(admin=_state(state[1]), operational=_state(state[2]))
    if not ports:
        raise ParseError("no port", line=text.strip()[:80])
    return SwitchFecs(ports=ports)


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
