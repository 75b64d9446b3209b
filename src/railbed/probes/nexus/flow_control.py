"""Link-level flow control (802.3x) of the ports of a Nexus (`show interface flowcontrol`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import port_name

STATE = r"(on|off|desired)"
ROW = re.compile(rf"\s*+(\S++)\s++{STATE}\s++\S++\s++{STATE}\s++\S++(?:\s++\d++)*+\s*+", re.IGNORECASE)
HEADER = re.compile(r"\s*+Port\s++Send\s++FlowControl\b.*", re.IGNORECASE)
SECOND_HEADER = re.compile(r"\s*+admin\s++oper\b.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl:
    """What was configured on one port."""

    send: bool
    """The port may pause its neighbour, all priorities at once."""
    receive: bool
    """The port obeys when its neighbour does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControls(TextFacts):
    """Flow control by port."""

    ports: dict[str, FlowControl]


def parse(text: str) -> FlowControls:
    """Read the table."""
    lines, is_table = Lines(text), False
    ports: dict[str, FlowControl] = {}
    for line in lines:
        if row := ROW.fullmatch(line):
            ports[port_name(row[1])] = FlowControl(send=row[2].lower() != "off", receive=row[3].lower() != "off")
        elif HEADER.fullmatch(line):
            is_table = True
        elif not SECOND_HEADER.fullmatch(line):
            lines.unknown(line)
    lines.require(is_table, "no table of flow control")
    lines.require(ports, "no port")
    return FlowControls(ports=ports, not_understood=lines.not_understood)


PROBE = Probe(
    name="nexus_flow_control",
    title="link-level flow control of the ports of a Nexus",
    command="show interface flowcontrol",
    parse=parse,
    facts=FlowControls,
    runs_on="switch",
)
