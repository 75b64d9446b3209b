"""Queues of a Nexus as data, and as `show queuing interface | json` prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.parsing.fields import Fields
from railbed.parsing.nexus.answer import count, port_name, required, rows, value_of

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
class SwitchQueues:
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

    def built(self) -> PortQueues:
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
            name = port_name(required(row, "if_name_str").partition(" ")[0])
            _read_port(row, builders.setdefault(name, Builder()))
    return SwitchQueues(ports={name: builder.built() for name, builder in builders.items()})


def _read_port(row: Fields, port: Builder) -> None:
    for item in rows(row, "qosgrp_cfg"):
        group = group_name(required(item, "qosgrp"))
        port.configure(group, count(item, "bandwidth"), count(item, "priority"))
        if count(item, "buffer-size") is not None:
            port.no_drop.add(group)
    for item in rows(row, "qosgrp_egress_stats"):
        group = group_name(required(item, "eq-qosgrp"))
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
        port.pauses[required(item, "cos")] = Pause(sent=sent or 0, received=received or 0)
