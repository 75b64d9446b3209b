"""Contradictions between parts of a file.

Every part that is valid by itself is checked, so that a file with a mistyped key gets all of its mistakes reported at
once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from railbed.clusterfile.partial import Located, PartialFile, Values, read_valid_parts
from railbed.model.cluster import Port, Rail
from railbed.yamlfile.mistakes import KeyPath, did_you_mean, key_text, path_text

Mistakes = Iterator[tuple[KeyPath, str]]

SSH_PORT = 22


def contradictions(values: Values) -> Mistakes:
    """Yield the path and the sentence of every mistake between parts."""
    file = read_valid_parts(values)
    yield from _names(file)
    yield from _hosts(file)
    yield from _rails_of_ports(file)
    yield from _used_twice(file.ports)
    yield from _cables(file)
    yield from _ends_of_switch_ports(file)
    yield from _switch_ports_used_twice(file)


def _names(file: PartialFile) -> Mistakes:
    """Nodes and switches share one namespace: facts, recordings and findings are stored by device."""
    for name in file.switch_names:
        if name in file.nodes:
            yield ("switches", name), f"{key_text(name)} is the name of a node already"


def _hosts(file: PartialFile) -> Mistakes:
    """Each node is a separate machine; the same address behind another jump host or port is another machine."""
    owners: dict[Hashable, str] = {}
    for name, node in file.nodes.items():
        host, login = node.get("host"), file.login_of(node)
        if not isinstance(host, str):
            continue
        first = owners.setdefault((host.lower(), login.port or SSH_PORT, login.jump), name)
        if first != name:
            yield ("nodes", name, "host"), f"{key_text(host)} is the host of {path_text(('nodes', first))} already"


def _rails_of_ports(file: PartialFile) -> Mistakes:
    for located in file.ports:
        rail = located.part.rail
        if rail not in file.rail_names:
            yield (*located.path, "rail"), f"there is no rail '{rail}'{_advice(rail, file.rail_names, 'rails')}"
        elif rail in file.rails:
            yield from _address_on_rail(located, file.rails[rail])


def _address_on_rail(located: Located[Port], rail: Rail) -> Mistakes:
    address, subnet = located.part.address, rail.subnet
    if subnet is None or (address.version == 6 and address.is_link_local):
        return
    path = (*located.path, "address")
    if address not in subnet:
        yield path, f"{address} is outside {subnet}, the subnet of {located.part.rail}"
    elif subnet.num_addresses <= 2:
        return
    elif address == subnet.network_address:
        yield path, f"{address} is the address of the network {subnet} itself"
    elif address.version == 4 and address == subnet.broadcast_address:
        yield path, f"{address} is the broadcast address of {subnet}"


def _used_twice(ports: list[Located[Port]]) -> Mistakes:
    """A link-local address is unique on its link; any other address belongs to one port of the cluster."""
    addresses, netdevs, devices = [], [], []
    for located in ports:
        port, node = located.part, located.owner
        link = port.rail if port.address.is_link_local else None
        addresses.append(((port.address, link), (*located.path, "address"), str(port.address)))
        netdevs.append(((node, port.netdev), (*located.path, "netdev"), port.netdev))
        if port.rdma is not None:
            name = f"port {port.rdma_port} of {port.rdma}"
            devices.append(((node, port.rdma, port.rdma_port), (*located.path, "rdma"), name))
    for uses in (addresses, netdevs, devices):
        yield from _repeated(uses)


def _repeated(uses: Iterable[tuple[Hashable, KeyPath, str]]) -> Mistakes:
    """Yield a mistake for each repeated use. A use has an identity, a path and a name for the message."""
    first: dict[Hashable, KeyPath] = {}
    for identity, path, name in uses:
        before = first.setdefault(identity, path)
        if before != path:
            yield path, f"{key_text(name)} is used by {path_text(before[:-1])} already"


def _cables(file: PartialFile) -> Mistakes:
    if file.invalid_nodes():
        return
    ends = defaultdict(list)
    for located in file.ports:
        ends[located.part.rail].append(f"{located.owner}/{located.part.netdev}")
    for name, rail in file.rails.items():
        if rail.point_to_point and len(ends[name]) not in {0, 2}:
            ports = f"{len(ends[name])}: {_some(ends[name])}"
            yield ("rails", name), f"a point-to-point rail connects exactly two ports, found {ports}"


def _ends_of_switch_ports(file: PartialFile) -> Mistakes:
    nodes, invalid = list(file.nodes), file.invalid_nodes()
    netdevs = defaultdict(list)
    for located in file.ports:
        netdevs[located.owner].append(located.part.netdev)
    for end in file.switch_ports:
        node, netdev = end.part.node, end.part.netdev
        if node not in file.nodes:
            yield (*end.path, "node"), f"there is no node '{node}'{_advice(node, nodes, 'nodes')}"
        elif netdev not in netdevs[node] and node not in invalid:
            advice = _advice(netdev, netdevs[node], "ports")
            yield (*end.path, "netdev"), f"{node} has no port '{netdev}'{advice}"


def _switch_ports_used_twice(file: PartialFile) -> Mistakes:
    yield from _repeated(
        ((end.part.node, end.part.netdev), (*end.path, "netdev"), f"{end.part.node}/{end.part.netdev}")
        for end in file.switch_ports
    )
    yield from _repeated(((end.owner, end.part.name), (*end.path, "name"), end.part.name) for end in file.switch_ports)


def _advice(word: str, names: list[str], kind: str) -> str:
    if not names:
        return f"; there are no {kind}"
    return did_you_mean(word, names) or f"; the {kind} are {_some(names)}"


def _some(names: list[str]) -> str:
    return ", ".join(map(key_text, names[:8])) + ", …" * (len(names) > 8)
