"""Mistakes between the parts of a file: where one key says what another does not agree with.

They are looked for in every part that is sound by itself, so that a file with a mistyped key hears of its other
mistakes in the same breath.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator

from railbed.clusterfile.draft import Draft, Placed, Values, draft
from railbed.model.cluster import Port, Rail
from railbed.yamlfile.mistakes import KeyPath, did_you_mean, key_text, path_text

Told = Iterator[tuple[KeyPath, str]]

SSH_PORT = 22


def disagreements(values: Values) -> Told:
    """Yield the path and the sentence of every mistake between parts."""
    read = draft(values)
    yield from _names(read)
    yield from _hosts(read)
    yield from _rails_of_ports(read)
    yield from _used_twice(read.ports)
    yield from _cables(read)
    yield from _ends_of_switch_ports(read)
    yield from _switch_ports_used_twice(read)


def _names(read: Draft) -> Told:
    """Nodes and switches share one set of names: facts, recordings and findings are kept by device."""
    for name in read.switch_names:
        if name in read.nodes:
            yield ("switches", name), f"{key_text(name)} is the name of a node already"


def _hosts(read: Draft) -> Told:
    """Two nodes are two machines; the same address behind another jump host, or with another port, is another one."""
    seen: dict[Hashable, str] = {}
    for name, node in read.nodes.items():
        host, login = node.get("host"), read.login_of(node)
        if not isinstance(host, str):
            continue
        first = seen.setdefault((host.lower(), login.port or SSH_PORT, login.jump), name)
        if first != name:
            yield ("nodes", name, "host"), f"{key_text(host)} is the host of {path_text(('nodes', first))} already"


def _rails_of_ports(read: Draft) -> Told:
    for placed in read.ports:
        rail = placed.part.rail
        if rail not in read.rail_names:
            yield (*placed.path, "rail"), f"there is no rail '{rail}'{_advice(rail, read.rail_names, 'rails')}"
        elif rail in read.rails:
            yield from _address_on_rail(placed, read.rails[rail])


def _address_on_rail(placed: Placed[Port], rail: Rail) -> Told:
    address, subnet = placed.part.address, rail.subnet
    if subnet is None or (address.version == 6 and address.is_link_local):
        return
    path = (*placed.path, "address")
    if address not in subnet:
        yield path, f"{address} is outside {subnet}, the subnet of {placed.part.rail}"
    elif subnet.num_addresses <= 2:
        return
    elif address == subnet.network_address:
        yield path, f"{address} is the address of the network {subnet} itself"
    elif address.version == 4 and address == subnet.broadcast_address:
        yield path, f"{address} is the broadcast address of {subnet}"


def _used_twice(ports: list[Placed[Port]]) -> Told:
    """A link-local address is told apart by its link; any other stands for one port in the whole cluster."""
    addresses, netdevs, devices = [], [], []
    for placed in ports:
        port, node = placed.part, placed.owner
        link = port.rail if port.address.is_link_local else None
        addresses.append(((port.address, link), (*placed.path, "address"), str(port.address)))
        netdevs.append(((node, port.netdev), (*placed.path, "netdev"), port.netdev))
        if port.rdma is not None:
            called = f"port {port.rdma_port} of {port.rdma}"
            devices.append(((node, port.rdma, port.rdma_port), (*placed.path, "rdma"), called))
    for uses in (addresses, netdevs, devices):
        yield from _repeated(uses)


def _repeated(uses: Iterable[tuple[Hashable, KeyPath, str]]) -> Told:
    """Yield a mistake for each use of what was used before, given as identity, path and the name to call it by."""
    first: dict[Hashable, KeyPath] = {}
    for identity, path, called in uses:
        before = first.setdefault(identity, path)
        if before != path:
            yield path, f"{key_text(called)} is used by {path_text(before[:-1])} already"


def _cables(read: Draft) -> Told:
    if read.unsound_nodes():
        return
    ends = defaultdict(list)
    for placed in read.ports:
        ends[placed.part.rail].append(f"{placed.owner}/{placed.part.netdev}")
    for name, rail in read.rails.items():
        if rail.point_to_point and len(ends[name]) not in {0, 2}:
            told = f"{len(ends[name])}: {_some(ends[name])}"
            yield ("rails", name), f"a point-to-point rail connects exactly two ports, found {told}"


def _ends_of_switch_ports(read: Draft) -> Told:
    nodes, unsound = list(read.nodes), read.unsound_nodes()
    netdevs = defaultdict(list)
    for placed in read.ports:
        netdevs[placed.owner].append(placed.part.netdev)
    for end in read.switch_ports:
        node, netdev = end.part.node, end.part.netdev
        if node not in read.nodes:
            yield (*end.path, "node"), f"there is no node '{node}'{_advice(node, nodes, 'nodes')}"
        elif netdev not in netdevs[node] and node not in unsound:
            advice = _advice(netdev, netdevs[node], "ports")
            yield (*end.path, "netdev"), f"{node} has no port '{netdev}'{advice}"


def _switch_ports_used_twice(read: Draft) -> Told:
    yield from _repeated(
        ((end.part.node, end.part.netdev), (*end.path, "netdev"), f"{end.part.node}/{end.part.netdev}")
        for end in read.switch_ports
    )
    yield from _repeated(((end.owner, end.part.name), (*end.path, "name"), end.part.name) for end in read.switch_ports)


def _advice(word: str, names: list[str], kind: str) -> str:
    if not names:
        return f"; there are no {kind}"
    return did_you_mean(word, names) or f"; the {kind} are {_some(names)}"


def _some(names: list[str]) -> str:
    return ", ".join(map(key_text, names[:8])) + ", …" * (len(names) > 8)
