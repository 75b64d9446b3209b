"""Which switch port each node's port is cabled to, from LLDP and the existing file.

Switches report it, too: by LLDP, else by the MAC addresses that they learned. Such a sighting has the form of an LLDP
neighbour of the node, so that both lead to the same cables.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from pydantic import ValidationError

from railbed.discover.allocation import End
from railbed.discover.machine import DiscoveredMachine, free_name
from railbed.model.cabling import Neighbour, name_from, port_key, switch_of
from railbed.model.cluster import Switch, SwitchPort
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.probes.nexus import lldp, mac_table
from railbed.probes.nexus.mac_table import MacEntry

NEXUS = re.compile(r"NX-OS|Nexus", re.IGNORECASE)

Neighbours = Mapping[End, Sequence[Neighbour]]
Socket = tuple[str, str]
"""A switch and its port in a uniform spelling: see `_socket`."""


def switches_of(
    filed: Mapping[str, Switch],
    hosts: Sequence[str],
    neighbours: Neighbours,
    ends: Collection[End],
    nodes: Collection[str],
) -> dict[str, Switch]:
    """Return the switches of the file, of the arguments and of LLDP (Nexus only), with cables to the ends.

    A cable of the file stays until LLDP shows its end on another port, or another end on its port.
    """
    switches = _known_switches(filed, hosts, neighbours, nodes)
    filed_cables = {
        _socket(name, port.name): port
        for name, switch in filed.items()
        for port in switch.ports
        if (port.node, port.netdev) in ends
    }
    announced = {end: dict(_find_announced(switches, end, neighbours[end])) for end in neighbours}
    cables = _cables(filed_cables, announced)
    return {
        name: switch.model_copy(update={"ports": tuple(port for (at, _), port in cables.items() if at == name)})
        for name, switch in switches.items()
    }


def _known_switches(
    filed: Mapping[str, Switch], hosts: Sequence[str], neighbours: Neighbours, nodes: Collection[str]
) -> dict[str, Switch]:
    switches = dict(filed)
    for host in hosts:
        if not any(host in (name, switch.host) for name, switch in switches.items()):
            switches[free_name(host, {*switches, *nodes})] = Switch(host=host)
    for neighbour in chain.from_iterable(neighbours.values()):
        name = name_from(neighbour.label)
        if name and NEXUS.search(neighbour.system_description or "") and switch_of(switches, neighbour) is None:
            switches[free_name(name, {*switches, *nodes})] = next(
                _create_switches(neighbour.addresses), None
            ) or Switch(host=name)
    return switches


def _create_switches(hosts: Sequence[str]) -> Iterator[Switch]:
    """Yield a switch for each valid host."""
    for host in hosts:
        try:
            yield Switch(host=host)
        except ValidationError:
            continue


def _find_announced(
    switches: Mapping[str, Switch], end: End, neighbours: Sequence[Neighbour]
) -> Iterator[tuple[Socket, SwitchPort]]:
    """Yield the switch ports that LLDP shows for an end: several if a device in between forwards LLDP."""
    for neighbour in neighbours:
        switch = switch_of(switches, neighbour)
        if switch is not None:
            # The name comes from the network: one that no switch has is not followed.
            with suppress(ValidationError):
                port = SwitchPort(name=neighbour.port_name, node=end[0], netdev=end[1])
                yield _socket(switch, port.name), port


def _socket(switch: str, port: str) -> Socket:
    return switch, port_key(port)


def _cables(
    filed_cables: Mapping[Socket, SwitchPort], announced: Mapping[End, dict[Socket, SwitchPort]]
) -> dict[Socket, SwitchPort]:
    """Return the cables by switch port; those of the file keep their order."""
    cables = {
        socket: port
        for socket, port in filed_cables.items()
        if not announced.get((port.node, port.netdev)) or socket in announced[port.node, port.netdev]
    }
    proven = {socket for socket, port in cables.items() if announced.get((port.node, port.netdev))}
    plugged = {(cables[socket].node, cables[socket].netdev) for socket in proven}
    for end, sockets in announced.items():
        free = [socket for socket in sockets if socket not in proven]
        if free and end not in plugged:
            cables[free[0]] = sockets[free[0]]
            proven.add(free[0])
    return {socket: cables[socket] for socket in (*filed_cables, *cables) if socket in cables}


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
    learned = dict(_find_learned(switches, machines, ends))
    return learned | dict(_sightings_of(switches, machines, ends))


def _sightings_of(
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


def _find_learned(
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
