"""Where nodes are connected according to switches: by LLDP, else by the MAC addresses that they learned.

A sighting has the form of an LLDP neighbour of the node, so that both lead to the same cables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from railbed.discover.allocation import End
from railbed.discover.machine import DiscoveredMachine
from railbed.model.cabling import Neighbour
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.probes.nexus import lldp, mac_table
from railbed.probes.nexus.mac_table import MacEntry

SWITCH_PROBES: tuple[Probe[object], ...] = (lldp.PROBE, mac_table.PROBE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchObservation:
    """The neighbours and MAC addresses of one switch."""

    neighbours: Mapping[str, tuple[Neighbour, ...]]
    """By port."""
    entries: tuple[MacEntry, ...]


def observe_switch(facts: DeviceFacts) -> SwitchObservation:
    """Extract an observation from facts; what is unknown is left out, never invented."""
    neighbours, table = facts.read(lldp.PROBE), facts.read(mac_table.PROBE)
    return SwitchObservation(
        neighbours=neighbours.facts.ports if isinstance(neighbours, Known) else {},
        entries=table.facts.entries if isinstance(table, Known) else (),
    )


def sightings(
    switches: Mapping[str, SwitchObservation], machines: Sequence[DiscoveredMachine], ends: Collection[End]
) -> dict[End, tuple[Neighbour, ...]]:
    """Return the switch port of each end; LLDP takes precedence over the MAC table."""
    learned = dict(_learned(switches, machines, ends))
    return learned | dict(_announced(switches, machines, ends))


def _announced(
    switches: Mapping[str, SwitchObservation], machines: Sequence[DiscoveredMachine], ends: Collection[End]
) -> Iterator[tuple[End, tuple[Neighbour, ...]]]:
    for name, switch in switches.items():
        for port, neighbours in switch.neighbours.items():
            for neighbour in neighbours:
                for machine in machines:
                    for netdev in _netdevs(machine, neighbour):
                        if (machine.name, netdev) in ends:
                            yield (machine.name, netdev), (_port_of(name, port),)


def _netdevs(machine: DiscoveredMachine, neighbour: Neighbour) -> Iterator[str]:
    """Yield the interface of a machine that a switch's neighbour is: by its MAC address, else by both names."""
    observation = machine.observation
    if neighbour.port_type == "mac":
        yield from (netdev for netdev, mac in observation.macs.items() if mac == neighbour.port.lower())
    elif neighbour.is_device(machine.name, observation.host) or neighbour.label == observation.hostname:
        yield from (netdev for netdev in (neighbour.port, neighbour.port_description) if netdev)


def _learned(
    switches: Mapping[str, SwitchObservation], machines: Sequence[DiscoveredMachine], ends: Collection[End]
) -> Iterator[tuple[End, tuple[Neighbour, ...]]]:
    """Yield the port on which a switch learned the address of an end.

    A port with addresses of other nodes leads to another switch and is left out.
    """
    owners = {
        mac: (machine.name, netdev)
        for machine in machines
        for netdev, mac in machine.observation.macs.items()
        if (machine.name, netdev) in ends
    }
    for name, switch in switches.items():
        at: dict[str, set[End]] = {}
        for entry in switch.entries:
            if entry.learned and entry.address in owners:
                at.setdefault(entry.port, set()).add(owners[entry.address])
        for port, seen_there in at.items():
            if len(seen_there) == 1:
                yield seen_there.pop(), (_port_of(name, port),)


def _port_of(switch: str, port: str) -> Neighbour:
    return Neighbour(system=switch, port=port, port_type="ifname")
