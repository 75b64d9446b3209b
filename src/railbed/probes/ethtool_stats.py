"""Counters of every interface's driver: drops, errors, pause (`ethtool -S IF`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.ports import answers, for_each_interface, without_title

GROUP = re.compile(r"[TR]x Queue#")
"""How vmxnet3 numbers its queues; the counters of each are indented below it, under the same names."""
TITLE = "NIC statistics:"
NUMBER = re.compile(r"^\d{1,20}$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The counters of one interface. A counter that this card or setting does not have is absent: it is not zero."""

    values: dict[str, int]
    texts: dict[str, str]
    """Values of unusual drivers that are not whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatistics(TextFacts):
    """Driver counters by interface; empty for one without any."""

    interfaces: dict[str, Counters]


def parse(text: str) -> DriverStatistics:
    """Read `ethtool -S IF` of one or many interfaces; names of counters depend on the driver."""
    lines = Lines(text)
    interfaces = {name: _counters(without_title(body, TITLE, lines), lines) for name, body in answers(lines)}
    lines.require_known(f"expected {TITLE!r}")
    return DriverStatistics(interfaces=interfaces, not_understood=lines.not_understood)


def _counters(body: list[str], lines: Lines) -> Counters:
    values: dict[str, int] = {}
    texts: dict[str, str] = {}
    group, depth = "", 0
    for line in body:
        # The last colon ends the name: bnxt and qede put the queue before it, as in `[0]: rx_ucast_packets: 17`.
        before, colon, after = line.rpartition(":")
        name, value = before.strip(), after.strip()
        if not colon or not name:
            lines.unknown(line)
            continue
        if line.strip() == TITLE:
            raise ParseError("several interfaces without their names", line=line)
        indent = len(before) - len(before.lstrip())
        if GROUP.fullmatch(name):
            group, depth = f"{name}{value}: ", indent
            continue
        full_name = f"{group}{name}" if indent > depth else name
        if NUMBER.match(value):
            values[full_name] = int(value)
        else:
            texts[full_name] = value
    return Counters(values=values, texts=texts)


PROBE = Probe(
    name="ethtool_stats",
    title="driver counters: drops, errors, pause frames",
    command=for_each_interface('ethtool -S "$name"'),
    parse=parse,
    facts=DriverStatistics,
    tool="ethtool",
    package="ethtool",
    twice=True,
)
