"""Which switch port each node's port is cabled to, from LLDP and the existing file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from pydantic import ValidationError

from railbed.discover.allocation import End
from railbed.discover.names import free_name
from railbed.model.cabling import Neighbour, port_key, switch_of
from railbed.model.cluster import Switch, SwitchPort
from railbed.model.names import name_from

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
    announced = {end: dict(_announced(switches, end, neighbours[end])) for end in neighbours}
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
            switches[free_name(name, {*switches, *nodes})] = next(_hosted(neighbour.addresses), None) or Switch(
                host=name
            )
    return switches


def _hosted(hosts: Sequence[str]) -> Iterator[Switch]:
    """Yield a switch for each valid host."""
    for host in hosts:
        try:
            yield Switch(host=host)
        except ValidationError:
            continue


def _announced(
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
