"""Counters of every interface's driver: drops, errors, pause (`ethtool -S IF`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.probes.interfaces import answers, for_each_interface, without_title

COUNTER = re.compile(r"^\s*(\S.*?)\s*:\s*([^:]*)$")
"""The last colon ends the name: bnxt and qede put the queue before it, as in `[0]: rx_ucast_packets: 17`."""
NUMBER = re.compile(r"^\d{1,20}$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The counters of one interface. One that is not here is one this card or setting does not have: it is not zero."""

    values: dict[str, int]
    texts: dict[str, str]
    """What odd drivers print that is no whole number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverStatistics:
    """Driver counters by interface; empty for one without any."""

    interfaces: dict[str, Counters]


def parse(text: str) -> DriverStatistics:
    """Read `ethtool -S IF` of one or many interfaces, whatever the driver names its counters."""
    return DriverStatistics(
        interfaces={name: _counters(without_title(lines, "NIC statistics:")) for name, lines in answers(text)}
    )


def _counters(lines: list[str]) -> Counters:
    values: dict[str, int] = {}
    texts: dict[str, str] = {}
    for line in lines:
        match = COUNTER.match(line)
        if not match:
            raise ParseError("expected `counter: value`", line=line)
        name, value = match.group(1), match.group(2).strip()
        if NUMBER.match(value):
            values[name] = int(value)
        else:
            texts[name] = value
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
