"""Reads the cluster file: to a cluster, or to one error that lists everything wrong with it.

Every part that is valid by itself is checked for contradictions with the others, so that a file with a mistyped key
gets all of its mistakes reported at once. The reference describes each key with the words of these messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from railbed.errors import ClusterFileError
from railbed.model.cluster import Bmc, BmcAccess, Cluster, Hca, Login, Node, Part, Port, Rail, SwitchPort
from railbed.yamlfile import wording
from railbed.yamlfile.document import parse
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import KeyPath, Mistake, did_you_mean, key_text, path_text, refusal
from railbed.yamlfile.read import BYTE_ORDER_MARK, read_text, validate
from railbed.yamlfile.wording import Schema, schema_of

CLUSTER_FILE = FileKind(
    noun="a cluster file",
    model=Cluster,
    error=ClusterFileError,
    keys="name and nodes",
    hint="`railbed discover HOST…` writes one",
    habits={
        "device": "rdma",
        "gateway": "jump",
        "hca": "rdma",
        "iface": "netdev",
        "interface": "netdev",
        "ip": "address",
        "mtu": "host_mtu",
        "network": "subnet",
        "nic": "netdev",
        "username": "user",
    },
)


P = TypeVar("P", bound=Part)
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Located(Generic[P]):
    """A part, the node or switch it belongs to, and its path in the file."""

    owner: str
    path: KeyPath
    part: P


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFile:
    """The readable parts of a file that may have mistakes."""

    nodes: dict[str, Values]
    """Nodes as they are written, valid or not."""
    rail_names: list[str]
    """Names of the rails, valid or not."""
    switch_names: list[str]
    rails: dict[str, Rail]
    ports: list[Located[Port]]
    hcas: list[Located[Hca]]
    switch_ports: list[Located[SwitchPort]]
    login: Login

    def login_of(self, node: Values) -> Login:
        """Return the login of a node over the cluster's; an invalid one counts as absent."""
        return (validated_part(Login, mapping(node.get("login"))) or Login()).over(self.login)

    def invalid_nodes(self) -> set[str]:
        """Return the nodes with an invalid port: which ports they have is not fully known."""
        readable = {located.path for located in self.ports}
        return {name for name, node in self.nodes.items() if not _all_readable(name, node.get("ports"), readable)}


def read_valid_parts(values: Values) -> PartialFile:
    """Read the parts that are valid."""
    rails = {name: validated_part(Rail, mapping(part)) for name, part in mapping(values.get("rails")).items()}
    nodes = {name: mapping(part) for name, part in mapping(values.get("nodes")).items()}
    switches = {name: mapping(part) for name, part in mapping(values.get("switches")).items()}
    return PartialFile(
        nodes=nodes,
        rail_names=list(rails),
        switch_names=list(switches),
        rails={name: rail for name, rail in rails.items() if rail is not None},
        ports=list(_list_parts("nodes", nodes, Port)),
        hcas=list(_list_parts("nodes", nodes, Hca, "hcas")),
        switch_ports=list(_list_parts("switches", switches, SwitchPort)),
        login=validated_part(Login, mapping(values.get("login"))) or Login(),
    )


def validated_part(kind: type[P], values: Values) -> P | None:
    """Return the part, ignoring unknown keys; None if it is invalid."""
    try:
        return kind.model_validate({key: value for key, value in values.items() if key in kind.model_fields})
    except ValidationError:
        return None


def mapping(value: object) -> Values:
    """Return the value if it is a map, otherwise an empty map."""
    return value if isinstance(value, dict) else {}


def _list_parts(section: str, owners: dict[str, Values], kind: type[P], key: str = "ports") -> Iterator[Located[P]]:
    for name, owner in owners.items():
        listed = owner.get(key)
        for index, item in enumerate(listed if isinstance(listed, list) else []):
            part = validated_part(kind, mapping(item))
            if part is not None:
                yield Located(name, (section, name, key, index), part)


def _all_readable(name: str, ports: object, readable: set[KeyPath]) -> bool:
    if not isinstance(ports, list):
        return ports is None
    return all(("nodes", name, "ports", index) in readable for index in range(len(ports)))


Mistakes = Iterator[tuple[KeyPath, str]]

SSH_PORT = 22


def contradictions(values: Values) -> Mistakes:
    """Yield the path and the sentence of every mistake between parts."""
    file = read_valid_parts(values)
    yield from _names(file)
    yield from _hosts(file)
    yield from _bmcs(file, values)
    yield from _rails_of_ports(file)
    yield from _rails_of_hcas(file)
    yield from _used_twice(file)
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


def _bmcs(file: PartialFile, values: Values) -> Mistakes:
    """Each node has a BMC of its own: with that of another, the wrong machine would be switched off."""
    owners: dict[Hashable, str] = {}
    default = validated_part(BmcAccess, mapping(values.get("bmc"))) or BmcAccess()
    for name, node in file.nodes.items():
        bmc = validated_part(Bmc, mapping(node.get("bmc")))
        if bmc is None:
            continue
        complete = bmc.over(default)
        first = owners.setdefault((bmc.host.lower(), complete.open_port, complete.jump), name)
        if first != name:
            place = path_text(("nodes", first))
            yield ("nodes", name, "bmc", "host"), f"{key_text(bmc.host)} is the BMC of {place} already"


def _rails_of_ports(file: PartialFile) -> Mistakes:
    for located in file.ports:
        rail = located.part.rail
        if rail not in file.rail_names:
            yield (*located.path, "rail"), f"there is no rail '{rail}'{_advice(rail, file.rail_names, 'rails')}"
        elif rail in file.rails:
            yield from _address_on_rail(located, file.rails[rail])


def _rails_of_hcas(file: PartialFile) -> Mistakes:
    for located in file.hcas:
        rail = located.part.rail
        if rail not in file.rail_names:
            yield (*located.path, "rail"), f"there is no rail '{rail}'{_advice(rail, file.rail_names, 'rails')}"
        elif rail in file.rails and not file.rails[rail].infiniband:
            yield (*located.path, "rail"), f"{rail} is not an InfiniBand fabric: it lacks `infiniband: true`"


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


def _used_twice(file: PartialFile) -> Mistakes:
    """A link-local address is unique on its link; any other address belongs to one port of the cluster."""
    addresses, netdevs, devices = [], [], []
    for located in file.ports:
        port, node = located.part, located.owner
        link = port.rail if port.address.is_link_local else None
        addresses.append(((port.address, link), (*located.path, "address"), str(port.address)))
        netdevs.append(((node, port.netdev), (*located.path, "netdev"), port.netdev))
        if port.rdma is not None:
            name = f"port {port.rdma_port} of {port.rdma}"
            devices.append(((node, port.rdma, port.rdma_port), (*located.path, "rdma"), name))
    for owned in file.hcas:
        name = f"port {owned.part.rdma_port} of {owned.part.rdma}"
        devices.append(((owned.owner, owned.part.rdma, owned.part.rdma_port), (*owned.path, "rdma"), name))
    for uses in (addresses, netdevs, devices):
        yield from _find_repeated(uses)


def _find_repeated(uses: Iterable[tuple[Hashable, KeyPath, str]]) -> Mistakes:
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
    yield from _find_repeated(
        ((end.part.node, end.part.netdev), (*end.path, "netdev"), f"{end.part.node}/{end.part.netdev}")
        for end in file.switch_ports
    )
    yield from _find_repeated(
        ((end.owner, end.part.name), (*end.path, "name"), end.part.name) for end in file.switch_ports
    )


def _advice(word: str, names: list[str], kind: str) -> str:
    if not names:
        return f"; there are no {kind}"
    return did_you_mean(word, names) or f"; the {kind} are {_some(names)}"


def _some(names: list[str]) -> str:
    return ", ".join(map(key_text, names[:8])) + ", …" * (len(names) > 8)


def load(path: Path) -> Cluster:
    """Read a cluster file; raise ClusterFileError with every mistake, one to a line."""
    return loads(read_text(path, CLUSTER_FILE), name=str(path))


def load_site(path: Path, *, name: str, nodes: Mapping[str, Node]) -> Cluster:
    """Read the cluster file of a site, which may lack a name, and nodes that a scheduler lends: use these instead."""
    values = {"name": name, "nodes": {key: node.model_dump(exclude_defaults=True) for key, node in nodes.items()}}
    return loads(read_text(path, CLUSTER_FILE), name=str(path), defaults=values)


def loads(text: str, *, name: str, defaults: Mapping[str, object] | None = None) -> Cluster:
    """Read the text of a cluster file; `name` is used in messages, and `defaults` for keys that the file lacks."""
    document = parse(text.removeprefix(BYTE_ORDER_MARK), name, CLUSTER_FILE)
    mistakes = list(document.mistakes)
    assert isinstance(document.value, dict)
    values = {**(defaults or {}), **document.value}
    cluster = validate(Cluster, values, document, CLUSTER_FILE, mistakes)
    mistakes += [Mistake(sentence, document.line(path), path) for path, sentence in contradictions(values)]
    if mistakes or cluster is None:
        raise refusal(CLUSTER_FILE, name, mistakes)
    return cluster


def cluster_schema() -> Schema:
    """Return the JSON Schema of the cluster file, as pydantic makes it."""
    return schema_of(Cluster)


def resolve(schema: Schema) -> Schema:
    """Return a part of the schema with references resolved."""
    return wording.resolve(cluster_schema(), schema)


def describe_expected(schema: Schema) -> str:
    """Return what a value must be, as the end of a sentence that begins with `expected`."""
    return wording.describe_expected(cluster_schema(), schema)
