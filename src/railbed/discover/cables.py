"""Which switch port each node's port is cabled to, as LLDP tells it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from pydantic import ValidationError

from railbed.discover.claims import End
from railbed.discover.names import free_name, name_from
from railbed.discover.sighting import SeenNeighbour
from railbed.model.cluster import Switch, SwitchPort
from railbed.model.switchport import short_name

NEXUS = re.compile(r"NX-OS|Nexus", re.IGNORECASE)

Heard = Mapping[End, Sequence[SeenNeighbour]]
Socket = tuple[str, str]
"""A switch and its port, however long its name is written: see `_socket`."""


def switches_of(
    filed: Mapping[str, Switch], asked: Sequence[str], heard: Heard, ends: Collection[End]
) -> dict[str, Switch]:
    """Return the file's switches, those asked for and the Nexus switches that LLDP shows, with the cables to the ends.

    A cable of the file stays until its end is heard on another port, or another end on its port.
    """
    switches = _known_switches(filed, asked, heard)
    stood = {
        _socket(name, port.name): port
        for name, switch in filed.items()
        for port in switch.ports
        if (port.node, port.netdev) in ends
    }
    cables = _cables(stood, {end: dict(_heard_on(switches, end, told)) for end, told in heard.items()})
    return {
        name: switch.model_copy(update={"ports": tuple(port for (at, _), port in cables.items() if at == name)})
        for name, switch in switches.items()
    }


def _known_switches(filed: Mapping[str, Switch], asked: Sequence[str], heard: Heard) -> dict[str, Switch]:
    switches = dict(filed)
    for host in asked:
        if not any(host in (name, switch.host) for name, switch in switches.items()):
            switches[free_name(host, switches)] = Switch(host=host)
    for neighbour in chain.from_iterable(heard.values()):
        name = name_from(_label(neighbour.system))
        if name and NEXUS.search(neighbour.description) and _switch_of(switches, neighbour) is None:
            switches[name] = next(_hosted(neighbour.addresses), None) or Switch(host=name)
    return switches


def _hosted(hosts: Sequence[str]) -> Iterator[Switch]:
    """Yield a switch for each host that can be one."""
    for host in hosts:
        try:
            yield Switch(host=host)
        except ValidationError:
            continue


def _switch_of(switches: Mapping[str, Switch], neighbour: SeenNeighbour) -> str | None:
    """Return the name of the switch that a neighbour is."""
    label = _label(neighbour.system)
    called = {text.lower() for text in (neighbour.system, label, name_from(label), *neighbour.addresses)}
    return next((name for name, switch in switches.items() if called & {name.lower(), switch.host.lower()}), None)


def _label(system: str) -> str:
    return system.partition(".")[0]


def _heard_on(
    switches: Mapping[str, Switch], end: End, neighbours: Sequence[SeenNeighbour]
) -> Iterator[tuple[Socket, SwitchPort]]:
    """Yield the switch ports that an end is heard on: several where something between passes LLDP on."""
    for neighbour in neighbours:
        switch = _switch_of(switches, neighbour)
        if switch is not None:
            yield _socket(switch, neighbour.port), SwitchPort(name=neighbour.port, node=end[0], netdev=end[1])


def _socket(switch: str, port: str) -> Socket:
    return switch, short_name(port)


def _cables(
    stood: Mapping[Socket, SwitchPort], heard: Mapping[End, dict[Socket, SwitchPort]]
) -> dict[Socket, SwitchPort]:
    """Return the cables by the port they are in, those that stood there before in their places."""
    cables = {
        socket: port
        for socket, port in stood.items()
        if not heard.get((port.node, port.netdev)) or socket in heard[port.node, port.netdev]
    }
    proven = {socket for socket, port in cables.items() if heard.get((port.node, port.netdev))}
    plugged = {(cables[socket].node, cables[socket].netdev) for socket in proven}
    for end, sockets in heard.items():
        free = [socket for socket in sockets if socket not in proven]
        if free and end not in plugged:
            cables[free[0]] = sockets[free[0]]
            proven.add(free[0])
    return {socket: cables[socket] for socket in (*stood, *cables) if socket in cables}
