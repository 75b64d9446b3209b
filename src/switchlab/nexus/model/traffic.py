"""Forwarding as the configured policies say: classification, queues, marking, pause and drops."""

from __future__ import annotations

from dataclasses import dataclass

from switchlab.nexus.model.config import ClassMap, Config, PolicyClass
from switchlab.nexus.model.counters import Port

QUEUE_LIMIT_BYTES = 1_000_000  # a lossy queue that is fuller than this drops at its tail
PAUSE_THRESHOLD_BYTES = 77_376


@dataclass(frozen=True, kw_only=True, slots=True)
class Packets:
    """A burst of packets of one flow that enters at one port and leaves at another.

    `depth` is how full the egress queue is while the burst passes: congestion is decided by the caller.
    """

    dscp: int
    bytes: int
    packet_size: int = 4096
    cos: int = 0
    ecn_capable: bool = True
    depth: int = 0

    def __post_init__(self) -> None:
        limits = {"dscp": (0, 63), "bytes": (0, 2**63), "packet_size": (64, 9216), "cos": (0, 7), "depth": (0, 2**63)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} must be a number from {low} to {high}, not {value!r}")

    @property
    def count(self) -> int:
        return -(-self.bytes // self.packet_size) if self.bytes else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    group: int
    lossless: bool
    sent: int
    marked: int = 0
    dropped: int = 0
    pauses: int = 0


def classify(config: Config, port: str, *, dscp: int, cos: int = 0) -> int:
    """Return the QoS group that the policies on a port give a packet."""
    policy = config.policy_on(port, ("qos", "input"))
    for item in policy.classes.values() if policy else ():
        if _matches(config.class_maps[("qos", item.name)], dscp, cos):
            return item.value("set", "group") or 0
    return 0


def _matches(class_map: ClassMap, dscp: int, cos: int) -> bool:
    if class_map.name == "class-default":
        return True
    fields = {"dscp": dscp, "cos": cos, "precedence": dscp >> 3}
    results = [fields.get(item.field) in item.values for item in class_map.criteria]
    return any(results) if class_map.mode == "match-any" else bool(results) and all(results)


def pfc_priorities(config: Config, port: str, *, up: bool, dcbx_peer: bool) -> dict[int, int]:
    """Return the priorities that PFC protects on a port, with their groups; empty if PFC is not operational."""
    interface, governing = config.interfaces.get(port), config.governing(port)
    if interface is None or governing is None or not up or interface.shut or flow_control(config, port):
        return {}
    active = governing.pfc_mode == "on" or (governing.pfc_mode == "auto" and dcbx_peer)
    return config.pause_classes() if active else {}


def flow_control(config: Config, port: str) -> bool:
    """Whether link-level flow control is on, in either direction: it takes the place of PFC."""
    governing = config.governing(port)
    settings = governing.settings if governing else {}
    return any(settings.get(f"flowcontrol {side}", "off").endswith(" on") for side in ("receive", "send"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """The path through the switch: two ports by name, their counters, and PFC on the first."""

    port_in: str
    port_out: str
    incoming: Port
    outgoing: Port
    pfc: dict[int, int]


def forward(config: Config, way: Crossing, packets: Packets) -> Outcome:
    """Count a burst on both ports and return what happened to it."""
    group = classify(config, way.port_in, dscp=packets.dscp, cos=packets.cos)
    paused = next((cos for cos, protected in way.pfc.items() if protected == group), None)
    if packets.packet_size > config.mtu_on(way.port_in, group):
        return _drop_oversized(way.incoming, group, packets)
    _count_arrival(way.incoming, group, packets)
    if packets.packet_size > config.mtu_on(way.port_out, group):
        way.outgoing.errors["out_discards"] += packets.count
        return Outcome(group=group, lossless=paused is not None, sent=0, dropped=packets.count)
    item = config.class_of_group(config.policy_on(way.port_out, ("queuing", "output")), group)
    spare_others = "congestion-control random-detect forward-nonecn" in config.settings
    marked, dropped = _congestion(item, packets, lossless=paused is not None, spare_others=spare_others)
    pauses = 0
    if paused is not None and packets.depth >= PAUSE_THRESHOLD_BYTES:
        pauses = packets.count
        way.incoming.pfc_tx[paused] += pauses
    _count_departure(way.outgoing, group, packets, marked, dropped)
    sent = packets.count - dropped
    return Outcome(group=group, lossless=paused is not None, sent=sent, marked=marked, dropped=dropped, pauses=pauses)


def _drop_oversized(incoming: Port, group: int, packets: Packets) -> Outcome:
    incoming.errors["giants"] += packets.count
    incoming.errors["rcv"] += packets.count
    return Outcome(group=group, lossless=False, sent=0, dropped=packets.count)


def _count_arrival(incoming: Port, group: int, packets: Packets) -> None:
    incoming.rx_unicast += packets.count
    incoming.rx_bytes += packets.bytes
    incoming.rx_jumbo += packets.count if packets.packet_size > 1518 else 0
    incoming.queue(group).rx_packets += packets.count


def _count_departure(outgoing: Port, group: int, packets: Packets, marked: int, dropped: int) -> None:
    queue = outgoing.queue(group)
    lost = min(packets.bytes, dropped * packets.packet_size)
    queue.tx_packets += packets.count - dropped
    queue.tx_bytes += packets.bytes - lost
    queue.drop_packets += dropped
    queue.drop_bytes += lost
    queue.ecn_packets += marked
    queue.ecn_bytes += min(packets.bytes, marked * packets.packet_size)
    outgoing.tx_unicast += packets.count - dropped
    outgoing.tx_bytes += packets.bytes - lost
    outgoing.tx_jumbo += packets.count - dropped if packets.packet_size > 1518 else 0
    outgoing.errors["out_discards"] += dropped


def _congestion(item: PolicyClass | None, packets: Packets, *, lossless: bool, spare_others: bool) -> tuple[int, int]:
    """Return how many packets are marked and how many are dropped at this queue depth."""
    share = _wred_share(item, packets.depth)
    affected = round(packets.count * share)
    ecn = bool(item and item.value("random-detect", "ecn"))
    marked = affected if ecn and packets.ecn_capable else 0
    dropped = 0 if marked or spare_others else affected
    if not lossless and packets.depth > QUEUE_LIMIT_BYTES:
        dropped = packets.count
        marked = 0
    return marked, dropped


def _wred_share(item: PolicyClass | None, depth: int) -> float:
    """Return the share of packets that WRED acts on: a ramp up to the drop probability, and all above the maximum."""
    action = item.actions.get("random-detect") if item else None
    if action is None or "minimum" not in action.values or depth < action.values["minimum"]:
        return 0.0
    low, high = action.values["minimum"], action.values["maximum"]
    if depth >= high:
        return 1.0
    return action.values["probability"] / 100 * (depth - low) / (high - low)
