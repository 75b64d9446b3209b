"""Where the ranks of all nodes meet: usually on the rail of their first ports, else on any network that reaches all.

In a ring of cables no rail reaches every node, and InfiniBand without IPoIB has no addresses: ranks then meet on the
network that nodes are logged in to, or another one that all have addresses in. RDMA still uses the rails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface

from railbed.model.cluster import Cluster, Node
from railbed.model.reading import DeviceFacts, Known
from railbed.probes import ip_addr


@dataclass(frozen=True, slots=True, kw_only=True)
class MeetingPlace:
    """The address at which a node's ranks meet the others."""

    interface: str
    address: str
    network: str
    """A rail's name, or the network address of another network."""


def meeting_places(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> dict[str, MeetingPlace]:
    """Return where the ranks of each node on a rail meet the others; on its first port if nothing reaches all."""
    nodes = {name: node for name, node in cluster.nodes.items() if node.rdma_ports}
    on_first = {name: _on_rail(node, node.ports[0].rail) for name, node in nodes.items() if node.ports}
    if len(on_first) == len(nodes) and len({place.network for place in on_first.values()}) < 2:
        return on_first
    rails = [rail for rail in cluster.rails if all(_has_rail(node, rail) for node in nodes.values())]
    if nodes and rails:
        return {name: _on_rail(node, rails[0]) for name, node in nodes.items()}
    return on_first | _on_another_network(nodes, facts)


def _has_rail(node: Node, rail: str) -> bool:
    return any(port.rail == rail for port in node.ports)


def _on_rail(node: Node, rail: str) -> MeetingPlace:
    port = next(port for port in node.ports if port.rail == rail)
    return MeetingPlace(interface=port.netdev, address=str(port.address), network=rail)


def _on_another_network(nodes: Mapping[str, Node], facts: Mapping[str, DeviceFacts]) -> dict[str, MeetingPlace]:
    """Return the nodes' addresses in a network that all which answered have; empty if there is none."""
    places = {
        name: list(_addresses(node, facts[name])) for name, node in nodes.items() if _has_addresses(facts.get(name))
    }
    for wanted in next(iter(places.values()), []):
        own = {name: _in_network(there, wanted) for name, there in places.items()}
        shared = {name: place for name, place in own.items() if place}
        # Bridges of containers and virtual machines have the same address everywhere.
        if len(own) == len(shared) == len({place.address for place in shared.values()}):
            return shared
    return {}


def _has_addresses(facts: DeviceFacts | None) -> bool:
    return facts is not None and isinstance(facts.read(ip_addr.PROBE), Known)


def _addresses(node: Node, facts: DeviceFacts) -> Iterator[MeetingPlace]:
    """Yield the addresses of a node outside its rails, the one it is logged in to first."""
    reading = facts.read(ip_addr.PROBE)
    if not isinstance(reading, Known):
        return
    rails = {port.netdev for port in node.ports}
    places = [
        MeetingPlace(interface=name, address=address.address, network=str(address.interface.network))
        for name, addresses in reading.facts.interfaces.items()
        for address in addresses
        if name not in rails and address.scope in (None, "global") and _reaches_others(address.interface)
    ]
    yield from sorted(places, key=lambda place: place.address != node.host)


def _reaches_others(interface: IPv4Interface | IPv6Interface) -> bool:
    """Whether an address is in a network with others; IPv6 addresses may be temporary, and are not taken."""
    is_alone = interface.network.prefixlen == interface.max_prefixlen
    return interface.version == 4 and not (interface.is_loopback or interface.is_link_local or is_alone)


def _in_network(places: Sequence[MeetingPlace], wanted: MeetingPlace) -> MeetingPlace | None:
    return next((place for place in places if place.network == wanted.network), None)
