"""Link-level flow control (802.3x) of the ports of a Nexus (`show interface flowcontrol`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.nexus.answer import port_name

STATE = r"(on|off|desired)"
ROW = re.compile(rf"\s*+(\S++)\s++{STATE}\s++\S++\s++{STATE}\s++\S++(?:\s++\d++)*+\s*+", re.IGNORECASE)
HEADER = re.compile(r"Send\s+FlowControl", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl:
    """What was configured on one port."""

    send: bool
    """The port may pause its neighbour, all priorities at once."""
    receive: bool
    """The port obeys when its neighbour does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControls:
    """Flow control by port."""

    ports: dict[str, FlowControl]


def parse(text: str) -> FlowControls:
    """Read the table; lines that are not the state of a port are headings."""
    if not HEADER.search(text):
        raise ParseError("no table of flow control", line=text.strip()[:80])
    rows = filter(None, map(ROW.fullmatch, text.splitlines()))
    ports = {
        port_name(row[1]): FlowControl(send=row[2].lower() != "off", receive=row[3].lower() != "off") for row in rows
    }
    if not ports:
        raise ParseError("no port", line=text.strip()[:80])
    return FlowControls(ports=ports)


PROBE = Probe(
    name="nexus_flow_control",
    title="link-level flow control of the ports of a Nexus",
    command="show interface flowcontrol",
    parse=parse,
    facts=FlowControls,
    runs_on="switch",
)
