"""Queues of a Nexus as data, as `show queuing interface` prints them, with or without `| json`.

The text has four layouts, distinguished line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.nexus.answer import content, count, optional_integer, port_name, require, rows, value_of
from railbed.parsing.text import Fields, integer

STATISTICS = {
    "Tx": "tx",
    "Dropped": "drop",
    "Drop": "drop",
    "Tail Drop": "drop",
    "WRED & Tail Drop": "drop",
    "WRED/AFD & Tail Drop": "drop",
    "WD & Tail Drop": "watchdog_drop",
    "WD": "watchdog_drop",
    "ECN": "ecn",
    "Q Depth": "depth",
}
UNITS = {"Pkts": "packets", "Byts": "bytes"}
INGRESS = {
    "Hi Priority Drop": "high_priority_drop_packets",
    "Low Priority Drop": "low_priority_drop_packets",
    "Ingress Overflow Drop": "overflow_drop_packets",
    "Ingress MMU Drop": "mmu_drop_packets",
}
WRED, WRED_DROPS = "WRED Drop", "wred_drop_packets"
COLUMNS = ("eq-uc-stat-value", "eq-oobfc-uc-stat-value", "eq-mc-stat-value")
GROUP = re.compile(r"(?:(CONTROL|SPAN) )?(?:QOS GROUP ?)?(\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue of a port: that of a QoS group."""

    bandwidth: int | None = None
    """Percentage."""
    priority: int | None = None
    """Level of a strict priority queue."""
    no_drop: bool = False
    """It has its own buffer, and pauses the sender instead of dropping."""
    counters: dict[str, int] = field(default_factory=dict)
    """`tx_packets`, `tx_bytes`, `drop_packets`, `drop_bytes`, `ecn_packets`, `depth_bytes`, `watchdog_drop_packets`;
    unicast and multicast together. One that is absent does not exist on this switch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Pause frames of one priority."""

    sent: int
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortQueues:
    """The queues of one port."""

    queues: dict[str, Queue] = field(default_factory=dict)
    """By QoS group; `CONTROL` and `SPAN` are the switch's own."""
    ingress: dict[str, int] = field(default_factory=dict)
    """Drops at the ingress by name, including WRED drops of the port if the switch counts them there."""
    pauses: dict[str, Pause] = field(default_factory=dict)
    """By priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchQueues(TextFacts):
    """Queues by port, internal ports (`ii1/1/1`) included."""

    ports: dict[str, PortQueues]


@dataclass(slots=True)
class Builder:
    """A port whose tables are being read."""

    bandwidth: dict[str, int] = field(default_factory=dict)
    priority: dict[str, int] = field(default_factory=dict)
    no_drop: set[str] = field(default_factory=set)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    ingress: dict[str, int] = field(default_factory=dict)
    pauses: dict[str, Pause] = field(default_factory=dict)

    def configure(self, group: str, bandwidth: int | None, priority: int | None) -> None:
        """Note how a queue is served."""
        self.counters.setdefault(group, {})
        if bandwidth is not None:
            self.bandwidth[group] = bandwidth
        if priority is not None:
            self.priority[group] = priority

    def count(self, group: str, label: str, unit: str, value: int) -> None:
        """Add a statistic of a queue; unknown labels are ignored."""
        counters = self.counters.setdefault(group, {})
        if label in STATISTICS and unit in UNITS:
            name = f"{STATISTICS[label]}_{UNITS[unit]}"
            counters[name] = counters.get(name, 0) + value

    def build(self) -> PortQueues:
        """Return the port."""
        queues = {
            group: Queue(
                bandwidth=self.bandwidth.get(group),
                priority=self.priority.get(group),
                no_drop=group in self.no_drop,
                counters=counters,
            )
            for group, counters in self.counters.items()
        }
        return PortQueues(queues=queues, ingress=self.ingress, pauses=self.pauses)


def group_name(text: str) -> str:
    """Return the name of a QoS group: its number, or `CONTROL` or `SPAN` for the switch's own."""
    match = GROUP.fullmatch(" ".join(text.split()))
    if not match or not (match[1] or match[2]):
        raise ParseError("an unknown QoS group", line=text)
    return match[1] or match[2]


def queues_of_json(fields: Fields) -> SwitchQueues:
    """Return the queues of an object."""
    builders: dict[str, Builder] = {}
    for module in rows(fields, "module") or [fields]:
        for row in rows(module, "queuing_interface"):
            name = port_name(require(row, "if_name_str").partition(" ")[0])
            _read_port(row, builders.setdefault(name, Builder()))
    return SwitchQueues(ports={name: builder.build() for name, builder in builders.items()})


def _read_port(row: Fields, port: Builder) -> None:
    for item in rows(row, "qosgrp_cfg"):
        group = group_name(require(item, "qosgrp"))
        port.configure(group, count(item, "bandwidth"), count(item, "priority"))
        if count(item, "buffer-size") is not None:
            port.no_drop.add(group)
    for item in rows(row, "qosgrp_egress_stats"):
        group = group_name(require(item, "eq-qosgrp"))
        for entry in rows(item, "qosgrp_egress_stats_entry"):
            value = sum(count(entry, column) or 0 for column in COLUMNS)
            port.count(group, value_of(entry, "eq-stat-type") or "", value_of(entry, "eq-stat-units") or "", value)
    for item in rows(row, "ingress_stats_entry"):
        name, value_read = INGRESS.get(value_of(item, "ip-stat-type") or ""), count(item, "ip-stat-value")
        if name and value_read is not None and (value_of(item, "ip-stat-units") or "Pkts") == "Pkts":
            port.ingress[name] = value_read
    for item in rows(row, "egress_stats_entry"):
        drops = count(item, "ep-stat-value")
        if drops is not None and value_of(item, "ep-stat-type") == WRED:
            port.ingress[WRED_DROPS] = drops
    for item in rows(row, "pfc_stats"):
        sent, received = count(item, "tx-pause-count"), count(item, "rx-pause-count")
        port.pauses[require(item, "cos")] = Pause(sent=sent or 0, received=received or 0)


PORT = re.compile(r"(Egress|Ingress) Queuing for (\S+)(?: \[(\w+)\])?")
OTHER_PORT = re.compile(r"\bQueuing for\b|\bqueuing information\b", re.IGNORECASE)
PORT_5000 = re.compile(r"(\S+) queuing information:?")
TEXT_GROUP = re.compile(r"\|\s*+((?:CONTROL |SPAN )?QOS GROUP(?: \d+)?)\s*+\|")
CONFIGURED = re.compile(r"(\d+)\s+(\d+|-)\s+(\d+|-)\s+\S+\s+\S+\s+\S+(?:\s+\S.*)?")
BUFFERS = re.compile(r"(\d+)\s+(\d+|-)\s+(\d+|-)\s+(\d+|-)")
PORT_DROPS = re.compile(
    r"(Hi Priority Drop|Low Priority Drop|Ingress Overflow Drop|Ingress MMU Drop|WRED Drop) (Pkts|Bytes)\s+(\d+)"
)
PAUSE = re.compile(r"(\d)\s+(?:\d+|-)(?:\s+(?:\d+|-))?\s+(?:Inactive|Active)\s+(\d+)\s+(?:Inactive|Active)\s+(\d+)")
PER_SLICE = "Per Slice Ingress Statistics"
HEADINGS = (
    "QoS-Group#",
    "Min ",
    "Buff Size",
    "Per Port Ingress Statistics",
    PER_SLICE,
    "Port Egress Statistics",
    "Port Ingress Statistics",
    "PFC Statistics",
    "TxPPP:",
    "PFC_COS ",
    "COS QOS Group",
)
WEIGHTS_5000 = re.compile(r"(\d+)\s+(WRR|priority)\s+(\d+)", re.IGNORECASE)
GROUP_5000 = re.compile(r"qos-group (\d+)")
DROP_TYPE_5000 = re.compile(r"drop-type: (drop|no-drop)\b.*")
COUNTER_5000 = re.compile(r"([A-Z][A-Za-z -]*+)\s*+: (\d+)")
COUNTERS_5000 = {
    "Pkts received over the port": ("rx", "packets"),
    "Pkts sent to the port": ("tx", "packets"),
    "Pkts discarded on ingress": ("drop", "packets"),
}
HEADINGS_5000 = (
    "TX Queuing",
    "RX Queuing",
    "qos-group ",
    "q-size:",
    "Statistics:",
    "Per-priority-pause",
    "Total Multicast",
)


def queues_of_text(lines: Lines) -> SwitchQueues:
    """Return the queues of a text. Output that was saved for a single group belongs to a port without a name."""
    reader = _Reader()
    for line in content(lines):
        with lines.reading(line):
            if not any(read(line) for read in reader.forms):
                reader.leave_port(line)
                lines.unknown(line)
    return SwitchQueues(
        ports={name: builder.build() for name, builder in reader.ports.items()}, not_understood=lines.not_understood
    )


class _Reader:
    """The position in the text: a port, a part of its output, a QoS group."""

    def __init__(self) -> None:
        self.ports: dict[str, Builder] = {}
        self._port = Builder()
        self._ingress = False
        self._per_slice = False
        self._group = ""
        self.forms: tuple[Callable[[str], bool], ...] = (
            self._open_port,
            self._open_group,
            self._statistic,
            self._configuration,
            self._drops,
            self._pause,
            self._heading,
            self._nexus_5000,
        )

    def leave_port(self, line: str) -> None:
        """Read no more of a port if a line, though of an unknown form, is about another."""
        if OTHER_PORT.search(line):
            self._port, self._group = Builder(), ""

    def _open_port(self, line: str) -> bool:
        match = PORT.fullmatch(line)
        older = PORT_5000.fullmatch(line)
        if not match and not older:
            return False
        name = match[2] if match else older[1] if older else ""
        self._port = self.ports.setdefault(port_name(name), Builder())
        self._ingress, self._per_slice, self._group = bool(match and match[1] == "Ingress"), False, ""
        return True

    def _open_group(self, line: str) -> bool:
        match = TEXT_GROUP.fullmatch(line)
        if match:
            self._group = group_name(match[1])
            if not self.ports:
                self.ports[""] = self._port
            self._port.configure(self._group, None, None)
        return match is not None

    def _statistic(self, line: str) -> bool:
        """Read a row of counters: a label, then one number per column; two such rows may share a line."""
        if not line.startswith("|"):
            return False
        label = ""
        for cell in (cell.strip() for cell in line.strip("|").split("|")):
            if cell.isdecimal():
                name, _, unit = label.rpartition(" ")
                if not self._group:
                    raise ParseError("a counter without a QoS group", line=line)
                self._port.count(self._group, name, unit, integer(cell))
            else:
                label = " ".join(cell.split())
        return True

    def _configuration(self, line: str) -> bool:
        if self._ingress:
            buffers = BUFFERS.fullmatch(line)
            if buffers and optional_integer(buffers[2]) is not None:
                self._port.configure(buffers[1], None, None)
                self._port.no_drop.add(buffers[1])
            return buffers is not None
        match = CONFIGURED.fullmatch(line)
        if match and not WEIGHTS_5000.fullmatch(line):
            self._port.configure(match[1], optional_integer(match[2]), optional_integer(match[3]))
            return True
        return False

    def _drops(self, line: str) -> bool:
        """Read drops of the port; those of its slice include other ports."""
        match = PORT_DROPS.fullmatch(line)
        if match and match[2] == "Pkts" and not self._per_slice:
            self._port.ingress[INGRESS.get(match[1], "wred_drop_packets")] = integer(match[3])
        return match is not None

    def _pause(self, line: str) -> bool:
        match = PAUSE.fullmatch(line)
        if match:
            self._port.pauses[match[1]] = Pause(sent=integer(match[2]), received=integer(match[3]))
        return match is not None

    def _heading(self, line: str) -> bool:
        if line.startswith(HEADINGS):
            self._per_slice = line == PER_SLICE
            return True
        return False

    def _nexus_5000(self, line: str) -> bool:
        if weight := WEIGHTS_5000.fullmatch(line):
            is_strict = weight[2].lower() == "priority"
            self._port.configure(weight[1], integer(weight[3]), 1 if is_strict else None)
        elif group := GROUP_5000.fullmatch(line):
            self._group = group[1]
            self._port.configure(self._group, None, None)
        elif drop := DROP_TYPE_5000.fullmatch(line):
            if drop[1] == "no-drop" and self._group:
                self._port.no_drop.add(self._group)
        elif match := COUNTER_5000.fullmatch(line):
            kind, unit = COUNTERS_5000.get(match[1].strip(), ("", ""))
            if kind and self._group:
                self._port.counters[self._group][f"{kind}_{unit}"] = integer(match[2])
        else:
            return line.startswith(HEADINGS_5000)
        return True
