"""By how much the counters of nodes and switches moved while a stream was running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from railbed.model.cabling import Cable, port_key
from railbed.model.cluster import Port
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.statistics import growth_between
from railbed.model.text import number, size
from railbed.parsing.nexus.queuing import PortQueues, Queue
from railbed.probes import ethtool_stats, infiniband_counters
from railbed.probes.nexus import pfc, queuing
from railbed.probes.nexus.pfc import PortPfc

F = TypeVar("F")
V = TypeVar("V")
PROBES: tuple[Probe[Any], ...] = (ethtool_stats.PROBE, infiniband_counters.PROBE, queuing.PROBE, pfc.PROBE)
SENT_BYTES = ("port_xmit_data",)
"""Counters of RDMA ports that count words of four bytes."""
SENT_PACKETS = ("port_xmit_packets", "sent_pkts", "tx_pkts", "tx_rdma_ucast_pkts")
OF_PRIORITY = ("{way}_prio{priority}_{unit}", "{way}_prio_{priority}_{unit}", "{way}_{unit}_pri{priority}")
"""How mlx5, mlx4 and bnxt name the traffic of one priority."""
PAUSES = ("{way}_prio{priority}_pause", "{way}_pause_prio_{priority}", "{way}_pfc_ena_frames_pri{priority}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much traffic a counter shows, in every unit that it counts."""

    bytes: int | None = None
    packets: int | None = None

    def share_of(self, sent: Amount) -> float | None:
        """Return which fraction of the sent traffic this is; None if the two have no unit in common."""
        for part, total in ((self.bytes, sent.bytes), (self.packets, sent.packets)):
            if part is not None and total:
                return part / total
        return None

    def __str__(self) -> str:
        if self.bytes is not None:
            return size(self.bytes)
        return f"{number(self.packets)} packets" if self.packets is not None else "nothing that is counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The counters before and after a stream, by device."""

    before: Mapping[str, DeviceFacts]
    after: Mapping[str, DeviceFacts]

    def measure_sent(self, node: str, port: Port) -> Amount:
        """Return what the RDMA port of a node sent."""
        words, packets = (self._rdma(node, port, names) for names in (SENT_BYTES, SENT_PACKETS))
        return Amount(bytes=None if words is None else 4 * words, packets=packets)

    def of_priority(self, node: str, port: Port, way: str, priority: int) -> Amount:
        """Return what an interface sent (`tx`) or received (`rx`) with a priority."""
        counted = {
            unit: self._driver(node, port, [name.format(way=way, priority=priority, unit=unit) for name in OF_PRIORITY])
            for unit in ("bytes", "packets")
        }
        return Amount(bytes=counted["bytes"], packets=counted["packets"])

    def pauses(self, node: str, port: Port, way: str, priority: int) -> int | None:
        """Return how many pause frames of a priority an interface sent (`tx`) or received (`rx`)."""
        return self._driver(node, port, [name.format(way=way, priority=priority) for name in PAUSES])

    def rdma_counter(self, node: str, port: Port, names: tuple[str, ...]) -> int | None:
        """Return by how much the first of some counters that an RDMA port has moved."""
        return self._rdma(node, port, names)

    def queues(self, cable: Cable) -> PortQueues | None:
        """Return the queues of a switch port with what each counted meanwhile; None if they were not read."""
        before, after = (_queues(facts, cable) for facts in (self.before, self.after))
        if before is None or after is None:
            return None
        moved = {
            group: Queue(
                bandwidth=queue.bandwidth,
                priority=queue.priority,
                no_drop=queue.no_drop,
                counters=_count_growth(before.queues[group].counters, queue.counters),
            )
            for group, queue in after.queues.items()
            if group in before.queues
        }
        return PortQueues(queues=moved)

    def pfc(self, cable: Cable) -> PortPfc | None:
        """Return the state of PFC of a switch port after the stream, with the pauses meanwhile."""
        before, after = (_pfc(facts, cable) for facts in (self.before, self.after))
        if before is None or after is None:
            return None
        return PortPfc(
            mode=after.mode,
            operational=after.operational,
            priorities=after.priorities,
            received=growth_between(before.received, after.received).least,
            sent=growth_between(before.sent, after.sent).least,
        )

    def _driver(self, node: str, port: Port, names: list[str]) -> int | None:
        before, after = (_last(facts.get(node), ethtool_stats.PROBE) for facts in (self.before, self.after))
        if before is None or after is None:
            return None
        first, second = before.interfaces.get(port.netdev), after.interfaces.get(port.netdev)
        return _first_moved(first.values, second.values, names) if first and second else None

    def _rdma(self, node: str, port: Port, names: tuple[str, ...]) -> int | None:
        before, after = (_last(facts.get(node), infiniband_counters.PROBE) for facts in (self.before, self.after))
        if before is None or after is None:
            return None
        key = f"{port.rdma}/{port.rdma_port}"
        first, second = before.ports.get(key), after.ports.get(key)
        if first is None or second is None:
            return None
        return _first_moved(first.counters | first.hw_counters, second.counters | second.hw_counters, names)


def _first_moved(before: Mapping[str, int], after: Mapping[str, int], names: list[str] | tuple[str, ...]) -> int | None:
    moved = _count_growth(before, after)
    return next((moved[name] for name in names if name in moved), None)


def _count_growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: growth_between(count, after[name]).least for name, count in before.items() if name in after}


def _last(facts: DeviceFacts | None, probe: Probe[F]) -> F | None:
    """Return the newest facts of a probe; None if it was not read."""
    reading = facts.read(probe) if facts else None
    return reading.facts if isinstance(reading, Known) else None


def _queues(facts: Mapping[str, DeviceFacts], cable: Cable) -> PortQueues | None:
    known = _last(facts.get(cable.switch), queuing.PROBE)
    return _find_port(known.ports, cable) if known else None


def _pfc(facts: Mapping[str, DeviceFacts], cable: Cable) -> PortPfc | None:
    known = _last(facts.get(cable.switch), pfc.PROBE)
    return _find_port(known.ports, cable) if known else None


def _find_port(ports: Mapping[str, V], cable: Cable) -> V | None:
    wanted = port_key(cable.switch_port.name)
    return next((port for name, port in ports.items() if port_key(name) == wanted), None)
