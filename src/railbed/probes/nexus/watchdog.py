"""The PFC watchdog of a Nexus: queues that it shut down (`show queuing pfc-queue detail`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import content, count, port_name, read_object, require, rows, value_of
from railbed.parsing.text import Fields, integer

PORT = re.compile(r"(\S+) Interface PFC watchdog: \[(\w+)\]")
GROUP = re.compile(r"\|\s*+QOS GROUP (\d+) \[([^\]]*)\]\s*+PFC \[(\w+)\](?:\s*+PFC-COS \[([^\]]*)\])?\s*+\|?")
STATISTIC = re.compile(r"\|\s*+([A-Z][A-Za-z +]*+)\|\s*+(\d+)\s*+\|")
GLOBAL = re.compile(r"Global watch-dog interval \[(\w+)\]")
IGNORED = (
    "Disable-action",
    "PFC watch-dog ",
    "PFC watchdog ",
    "Global PFC watchdog",
    "|                               |  Stats",
)
NAMES = {
    "Shutdown": ("shutdowns", "q-shutdown"),
    "Restored": ("restored", "q-restored"),
    "Total pkts drained": ("drained", "q-pkt-drained"),
    "Total pkts dropped": ("dropped", "q-pkt-dropped"),
    "Total Ingress pkts dropped": ("ingress_dropped", "q-ing-pkt-dropped"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedQueue:
    """A no-drop queue that the watchdog observes."""

    state: str
    """`active`, or `shutdown` while its packets are dropped."""
    counters: dict[str, int] = field(default_factory=dict)
    """`shutdowns`, `restored`, `drained`, `dropped`, `ingress_dropped`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedPort:
    """The watchdog on one port."""

    enabled: bool
    queues: dict[str, WatchedQueue] = field(default_factory=dict)
    """By QoS group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortWatchdog(TextFacts):
    """The watchdog by port."""

    enabled: bool | None = None
    """For the switch as a whole; None if the output does not include it."""
    ports: dict[str, WatchedPort]


def parse(text: str) -> PortWatchdog:
    """Read both forms, with and without `detail`'s statistics."""
    fields, lines = read_object(text), Lines(text)
    watchdog = _of_json(fields) if fields else _of_text(lines)
    lines.require(watchdog.ports, "no port")
    return watchdog


def _of_json(fields: Fields) -> PortWatchdog:
    modules = rows(fields, "module") or [fields]
    status = [value for module in modules if (value := value_of(module, "glb-wd-status"))]
    ports: dict[str, WatchedPort] = {}
    for row in (row for module in modules for row in rows(module, "queuing_interface")):
        name = require(row, "if_name_str").partition(" ")[0]
        queues = {require(group, "eq-qosgrp"): _queue(group) for group in rows(row, "qosgrp_stats")}
        enabled = require(row, "wd-status").lower() == "enabled"
        ports[port_name(name)] = WatchedPort(enabled=enabled, queues=queues)
    return PortWatchdog(enabled=status[0].lower() == "enabled" if status else None, ports=ports)


def _queue(group: Fields) -> WatchedQueue:
    names = {key: name for name, key in NAMES.values()}
    entries = rows(group, "qosgrp_stats_entry")
    counters = {
        names[key]: value
        for entry in entries
        for key in names
        if key in entry and (value := count(entry, key)) is not None
    }
    return WatchedQueue(state=(value_of(group, "eq-qosgrp-state") or "active").lower(), counters=counters)


def _of_text(lines: Lines) -> PortWatchdog:
    enabled: bool | None = None
    ports: dict[str, WatchedPort] = {}
    groups: dict[str, WatchedQueue] = {}
    counters: dict[str, int] = {}
    for line in content(lines):
        if port := PORT.fullmatch(line):
            groups, counters = {}, {}
            ports[port_name(port[1])] = WatchedPort(enabled=port[2].lower() == "enabled", queues=groups)
        elif group := GROUP.fullmatch(line):
            counters = {}
            groups[group[1]] = WatchedQueue(state=group[2].lower(), counters=counters)
        elif statistic := STATISTIC.fullmatch(line):
            counters |= dict(_counter(statistic[1].strip(), statistic[2]))
        elif match := GLOBAL.fullmatch(line):
            enabled = match[1].lower() == "enabled"
        elif not line.startswith(IGNORED):
            lines.unknown(line)
    return PortWatchdog(enabled=enabled, ports=ports, not_understood=lines.not_understood)


def _counter(label: str, value: str) -> Iterator[tuple[str, int]]:
    if label in NAMES:
        yield NAMES[label][0], integer(value)


PROBE = Probe(
    name="nexus_watchdog",
    title="PFC watchdog of a Nexus: queues that it shut down",
    command="show queuing pfc-queue detail | json\nshow queuing pfc-queue detail",
    parse=parse,
    facts=PortWatchdog,
    runs_on="switch",
    twice=True,
    one_line=True,
)
