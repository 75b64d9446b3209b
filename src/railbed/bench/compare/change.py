"""An arm's change as a fix on each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.bench.compare.experiment import Arm
from railbed.fleet.change import NotChanged
from railbed.model.cluster import Cluster
from railbed.model.fix import Fix, Persistence, run, set_mtu
from railbed.model.reading import DeviceFacts, Known
from railbed.probes import ip_link


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChanges:
    """How the arms of an experiment change the devices."""

    cluster: Cluster
    facts: Mapping[str, DeviceFacts]
    planned: Mapping[str, Sequence[Fix]] = field(default_factory=dict)
    """The fixes of arms that `configure` devices, by the name of the arm."""

    def obstacle(self, arms: Sequence[Arm]) -> str:
        """Return why the arms would not differ; empty if they do."""
        for arm in arms:
            if arm.change and arm.change.configure and not self.planned.get(arm.name):
                rules = ", ".join(arm.change.configure)
                return f"there is nothing to change for {arm.name}: no device has a fix for {rules}"
        return ""

    def of(self, arm: Arm, nodes: Sequence[str]) -> list[Fix]:
        """Return the fixes that make an arm's change on nodes, and on switches if it concerns them.

        Raise NotChanged if the state to restore is unknown.
        """
        change = arm.change
        if change is None:
            return []
        if change.configure is not None:
            involved = {*nodes, *self.cluster.switches}
            return [fix for fix in self.planned.get(arm.name, ()) if fix.device in involved]
        if change.apply is not None and change.undo is not None:
            return [_fix(node, change.apply, change.undo) for node in nodes]
        return [set_mtu(node, _mtus(self.cluster, self.facts[node], node, change.mtu or 0)) for node in nodes]


def _fix(node: str, apply: str, undo: str) -> Fix:
    return Fix(device=node, apply=run(apply), undo=run(undo), persistence=Persistence.BOOT, interrupts=True)


def _mtus(cluster: Cluster, facts: DeviceFacts, node: str, mtu: int) -> Iterator[tuple[str, int, int]]:
    reading = facts.read(ip_link.PROBE)
    links = reading.facts.links if isinstance(reading, Known) else {}
    for port in cluster.nodes[node].ports:
        if port.netdev not in links:
            raise NotChanged(f"{node} cannot be changed: the MTU of {port.netdev} is unknown")
        yield port.netdev, links[port.netdev].mtu, mtu
