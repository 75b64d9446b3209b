"""What a port is cabled to: in the cluster file, and as the neighbour at the other end reports over LLDP.

Switches, LLDP and people write the same switch port in several ways, and a neighbour may give its name with a domain,
or only a management address. All matching between the two is here.

Host names and other free text become names for the cluster file, whose devices and links are its topology.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from railbed.model.cluster import Cluster, Port, Switch, SwitchPort

NAME_LENGTH = 64


def name_from(text: str) -> str:
    """Turn a text into a name for the cluster file; empty if none of its characters are allowed."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text).strip("-._")[:NAME_LENGTH].rstrip("-._")


PREFIX = re.compile(r"^(ethernet|eth|et|hundredgige|twentyfivegige|fortygige)(?=\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A cable of the cluster file, between a port of a node and a port of a switch."""

    node: str
    port: Port
    switch: str
    switch_port: SwitchPort


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The device at the other end of a cable, as it identifies itself over LLDP."""

    system: str | None = None
    """Name of the switch or machine."""
    system_description: str | None = None
    chassis: str | None = None
    """Id of the chassis, mostly a MAC address."""
    port: str
    """Id of its port: a name such as `Ethernet1/1`, or a MAC address."""
    port_type: str | None = None
    """What the id is: `ifname`, `local`, `mac`, …"""
    port_description: str | None = None
    """On a machine that runs lldpd, the name of the interface."""
    addresses: tuple[str, ...] = ()
    """Its management addresses."""

    @property
    def port_name(self) -> str:
        """The name of its port; LLDP may report it in addition to a MAC address."""
        return self.port_description if self.port_type == "mac" and self.port_description else self.port

    @property
    def label(self) -> str:
        """Its name without the domain."""
        return (self.system or "").partition(".")[0]

    def is_device(self, name: str, host: str | None) -> bool:
        """Whether it is the device with this name and host in the cluster file."""
        names = {self.system or "", self.label, name_from(self.label), *self.addresses}
        return bool({text.lower() for text in names if text} & {name.lower(), (host or name).lower()})

    def is_port(self, name: str) -> bool:
        """Whether its port is the switch port with this name."""
        return port_key(name) in (port_key(self.port), port_key(self.port_description or ""))


@lru_cache(maxsize=16384)
def port_key(port: str) -> str:
    """Return the same text for every spelling of a switch port: `Ethernet1/1`, `Eth1/1` and `eth1/1` are the same."""
    return PREFIX.sub("eth", port.strip().lower())


def cables(cluster: Cluster) -> Iterator[Cable]:
    """Yield the cables between nodes and switches, in the order of the switches' ports."""
    ports = {(node, port.netdev): port for node, port in cluster.ports()}
    for name, switch in cluster.switches.items():
        for switch_port in switch.ports:
            port = ports.get((switch_port.node, switch_port.netdev))
            if port is not None:
                yield Cable(node=switch_port.node, port=port, switch=name, switch_port=switch_port)


class Cabling:
    """The cables between nodes and switches by both their ends: the cluster is walked only once for all of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._of_nodes: dict[tuple[str, str], Cable] = {}
        self._of_switches: dict[tuple[str, str], Cable] = {}
        for cable in cables(cluster):
            self._of_nodes.setdefault((cable.node, cable.port.netdev), cable)
            self._of_switches.setdefault((cable.switch, cable.switch_port.name), cable)

    def of_node(self, node: str, port: Port) -> Cable | None:
        """Return the cable of a node's port; None if the cluster file names none."""
        return self._of_nodes.get((node, port.netdev))

    def of_switch(self, switch: str, port: SwitchPort) -> Cable | None:
        """Return the cable of a switch's port; None if no node has the port that the cluster file names."""
        return self._of_switches.get((switch, port.name))


def cable_of(cluster: Cluster, node: str, port: Port) -> Cable | None:
    """Return the cable between a node's port and a switch; None if the cluster file names none."""
    return Cabling(cluster).of_node(node, port)


def partner_of(cluster: Cluster, node: str, port: Port) -> tuple[str, Port] | None:
    """Return the node and port at the other end of a cable between two nodes; None on any other rail."""
    if not cluster.rails[port.rail].point_to_point:
        return None
    return next(cluster.peers(node, port), None)


def far_end(cluster: Cluster, node: str, port: Port) -> str:
    """Describe what a port is cabled to: `switch port`, or `node/interface`; empty if the file does not have it."""
    if cable := cable_of(cluster, node, port):
        return f"{cable.switch} {cable.switch_port.name}"
    partner = partner_of(cluster, node, port)
    return f"{partner[0]}/{partner[1].netdev}" if partner else ""


def switch_of(switches: Mapping[str, Switch], neighbour: Neighbour) -> str | None:
    """Return the name in the cluster file of a neighbour that is a switch."""
    return next((name for name, switch in switches.items() if neighbour.is_device(name, switch.host)), None)


@dataclass(frozen=True, slots=True)
class TopologyLink:
    """A cable, or a node's port on a rail whose switch is not in the cluster file."""

    node: str
    port: str
    peer: str
    peer_port: str
    rail: str
    speed: float | None
    """In Gb/s."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The devices and links of a cluster."""

    nodes: Sequence[str]
    switches: Sequence[str]
    """Switches, and rails without one, which stand in for it."""
    links: Sequence[TopologyLink]


def topology(cluster: Cluster) -> Topology:
    """Return the topology of a cluster file; a cable between two nodes is one link."""
    cabling = Cabling(cluster)
    links = []
    for node, port in cluster.ports():
        partner = partner_of(cluster, node, port)
        if partner is None or node < partner[0]:
            links.append(_link(cluster, cabling, node, port))
    rails = {link.peer: None for link in links if link.peer not in {*cluster.nodes, *cluster.switches}}
    return Topology(list(cluster.nodes), [*cluster.switches, *rails], links)


def _link(cluster: Cluster, cabling: Cabling, node: str, port: Port) -> TopologyLink:
    speed = cluster.rails[port.rail].speed
    if cable := cabling.of_node(node, port):
        return TopologyLink(node, port.netdev, cable.switch, cable.switch_port.name, port.rail, speed)
    if partner := partner_of(cluster, node, port):
        return TopologyLink(node, port.netdev, partner[0], partner[1].netdev, port.rail, speed)
    return TopologyLink(node, port.netdev, port.rail, "", port.rail, speed)
