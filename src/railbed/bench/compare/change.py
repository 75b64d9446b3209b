"""An arm's change as a fix on each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railbed.bench.compare.experiment import ArmChange
from railbed.fleet.change import NotChanged
from railbed.model.cluster import Cluster
from railbed.model.fix import Fix, Persistence, run, set_mtu
from railbed.model.reading import DeviceFacts, Known
from railbed.probes import ip_link


def fixes_of(
    change: ArmChange | None, cluster: Cluster, facts: Mapping[str, DeviceFacts], nodes: Sequence[str]
) -> list[Fix]:
    """Return the fixes that make the change on nodes; raise NotChanged if the state to restore is unknown."""
    if change is None:
        return []
    if change.apply is not None and change.undo is not None:
        return [_fix(node, change.apply, change.undo) for node in nodes]
    return [set_mtu(node, _mtus(cluster, facts[node], node, change.mtu or 0)) for node in nodes]


def _fix(node: str, apply: str, undo: str) -> Fix:
    return Fix(device=node, apply=run(apply), undo=run(undo), persistence=Persistence.BOOT, interrupts=True)


def _mtus(cluster: Cluster, facts: DeviceFacts, node: str, mtu: int) -> Iterator[tuple[str, int, int]]:
    reading = facts.read(ip_link.PROBE)
    links = reading.facts.links if isinstance(reading, Known) else {}
    for port in cluster.nodes[node].ports:
        if port.netdev not in links:
            raise NotChanged(f"{node} cannot be changed: the MTU of {port.netdev} is unknown")
        yield port.netdev, links[port.netdev].mtu, mtu
