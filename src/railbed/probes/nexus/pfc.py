"""Priority flow control of the ports of a Nexus (`show interface priority-flow-control`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import bitmap, content, count, port_name, read_object, require, rows
from railbed.parsing.text import Fields, integer

ROW = re.compile(r"(\S+)\s+(Auto|On|Off)\s+(On|Off)(?:\s*+\(\s*+([0-9a-fA-F]+)\s*+\))?\s+(\d+)\s+(\d+)", re.IGNORECASE)
OPERATIONAL = re.compile(r"(On|Off)(?:\s*+\(\s*+([0-9a-fA-F]+)\s*+\))?", re.IGNORECASE)
HEADER = "Port "


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPfc:
    """PFC of one port."""

    mode: str
    """As configured: `on`, `off`, or `auto` if DCBX decides."""
    operational: bool
    priorities: tuple[int, ...] = ()
    """The priorities that are paused; none if PFC is not operational."""
    received: int
    """Pause frames received: the device at the port is congested."""
    sent: int
    """Pause frames sent: the switch is congested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPfc(TextFacts):
    """PFC by port, internal ports (`ii1/1/1`) included."""

    ports: dict[str, PortPfc]


def parse(text: str) -> SwitchPfc:
    """Read both forms. The bitmap is hexadecimal."""
    fields, lines = read_object(text), Lines(text)
    ports = dict(_of_json(fields) if fields else _of_text(lines))
    lines.require(ports, "no port")
    return SwitchPfc(ports=ports, not_understood=lines.not_understood)


def _of_json(fields: Fields) -> Iterator[tuple[str, PortPfc]]:
    for module in rows(fields, "module") or [fields]:
        for row in rows(module, "pfc_interface"):
            state = OPERATIONAL.fullmatch(require(row, "oper"))
            if not state:
                raise ParseError("an unknown state of PFC", line=require(row, "oper"))
            received, sent = count(row, "rx-stats"), count(row, "tx-stats")
            yield (
                port_name(require(row, "if_name_str")),
                _port(require(row, "admin"), state[1], state[2], received or 0, sent or 0),
            )


def _of_text(lines: Lines) -> Iterator[tuple[str, PortPfc]]:
    for line in content(lines):
        match = ROW.fullmatch(line)
        if match:
            name, mode, state, bits, received, sent = match.groups()
            with lines.reading(line):
                yield port_name(name), _port(mode, state, bits, integer(received), integer(sent))
        elif not line.startswith(HEADER):
            lines.unknown(line)


def _port(mode: str, state: str, bits: str | None, received: int, sent: int) -> PortPfc:
    return PortPfc(
        mode=mode.lower(),
        operational=state.lower() == "on",
        priorities=bitmap(bits) if bits else (),
        received=received,
        sent=sent,
    )


PROBE = Probe(
    name="nexus_pfc",
    title="PFC of the ports of a Nexus: mode, state, priorities, pause frames",
    command="show interface priority-flow-control | json\nshow interface priority-flow-control",
    parse=parse,
    facts=SwitchPfc,
    runs_on="switch",
    twice=True,
    one_line=True,
)
