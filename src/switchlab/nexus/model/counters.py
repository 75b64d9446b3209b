"""The counters of a port, and what is connected to it: neighbours and MAC addresses."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

ERROR_COUNTERS = (
    *("align", "fcs", "xmit", "rcv", "undersize", "out_discards", "single_collisions", "multi_collisions"),
    *("late_collisions", "excess_collisions", "carrier_sense", "runts", "giants", "deferred", "mac_tx", "mac_rx"),
    *("symbol", "in_discards", "stomped_crc"),
)


@dataclass(slots=True)
class Queue:
    """Egress counters of one QoS group on one port."""

    tx_packets: int = 0
    tx_bytes: int = 0
    multicast_packets: int = 0
    multicast_bytes: int = 0
    drop_packets: int = 0
    drop_bytes: int = 0
    ecn_packets: int = 0
    ecn_bytes: int = 0
    depth_bytes: int = 0
    watchdog_drops: int = 0
    rx_packets: int = 0
    ingress_drops: int = 0


@dataclass(slots=True)
class Watchdog:
    """PFC watchdog counters of one no-drop group on one port."""

    shutdown: int = 0
    restored: int = 0
    drained: int = 0
    dropped: int = 0
    ingress_dropped: int = 0
    active: int = 0


@dataclass(slots=True)
class Port:
    rx_unicast: int = 0
    rx_multicast: int = 0
    rx_broadcast: int = 0
    rx_bytes: int = 0
    rx_jumbo: int = 0
    rx_pause: int = 0
    tx_unicast: int = 0
    tx_multicast: int = 0
    tx_broadcast: int = 0
    tx_bytes: int = 0
    tx_jumbo: int = 0
    tx_pause: int = 0
    wred_drops: int = 0
    mmu_drops: int = 0
    mmu_drop_bytes: int = 0
    high_priority_drops: int = 0
    low_priority_drops: int = 0
    overflow_drops: int = 0
    resets: int = 0
    errors: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERROR_COUNTERS, 0))
    queues: dict[int, Queue] = field(default_factory=dict)
    watchdogs: dict[int, Watchdog] = field(default_factory=dict)
    pfc_rx: list[int] = field(default_factory=lambda: [0] * 8)
    pfc_tx: list[int] = field(default_factory=lambda: [0] * 8)

    def queue(self, group: int) -> Queue:
        return self.queues.setdefault(group, Queue())

    def watchdog(self, group: int) -> Watchdog:
        return self.watchdogs.setdefault(group, Watchdog())

    def clear(self) -> None:
        fresh = Port()
        for item in fields(Port):
            setattr(self, item.name, getattr(fresh, item.name))


@dataclass(slots=True)
class Link:
    """The physical state of a port, set from outside."""

    up: bool = False
    mbps: int = 0
    changed: float = 0.0
    dcbx_peer: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An LLDP neighbour."""

    port: str
    chassis_id: str
    port_id: str
    system_name: str
    port_description: str = "null"
    system_description: str = "Linux"
    capabilities: str = "S"
    management_address: str = "not advertised"
    vlan: str = "not advertised"
    hold: int = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class MacEntry:
    vlan: int
    address: str
    port: str


def add_to_counter(
    port: Port, counter: str, amount: int, *, group: int | None = None, priority: int | None = None
) -> None:
    """Increase one counter of a port: of the port itself, an error, a queue (`group`), the watchdog or a priority."""
    if counter in ("pfc_rx", "pfc_tx") and priority is not None and 0 <= priority <= 7:
        counts: list[int] = getattr(port, counter)
        counts[priority] += amount
    elif counter in port.errors:
        port.errors[counter] += amount
    elif group is not None and 0 <= group <= 7:
        target = port.watchdog(group) if counter.startswith("watchdog.") else port.queue(group)
        _increase(target, counter.removeprefix("watchdog."), amount)
    else:
        _increase(port, counter, amount)


def _increase(target: Port | Queue | Watchdog, counter: str, amount: int) -> None:
    names = {item.name for item in fields(target)}
    if counter not in names or not isinstance(getattr(target, counter), int):
        raise ValueError(f"unknown counter {counter}")
    setattr(target, counter, getattr(target, counter) + amount)
