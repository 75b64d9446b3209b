"""Which ports test which others: every port is covered in both directions, by few pairs."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address, ip_network

from hypothesis import given, settings
from hypothesis import strategies as st

from railbed.model.cluster import Cluster, Node, Port, Rail
from railbed.model.probe import ALL_PAIRS_PORTS, Pair, Pairs, pairs_of


def cluster_of(layout: list[list[int]]) -> Cluster:
    """Return a cluster from the rail numbers of each node's ports."""
    rails = sorted({rail for ports in layout for rail in ports})
    nodes = {
        f"n{number}": Node(
            host=f"n{number}",
            ports=tuple(
                Port(netdev=f"eth{i}", rail=f"r{rail}", address=ip_address(f"10.{rail}.{number}.{i + 1}"))
                for i, rail in enumerate(ports)
            ),
        )
        for number, ports in enumerate(layout)
    }
    subnets = {f"r{rail}": Rail(subnet=ip_network(f"10.{rail}.0.0/16")) for rail in rails}
    return Cluster(name="x", rails=subnets, nodes=nodes)


def all_of(cluster: Cluster, *, every: bool = False) -> list[Pair]:
    return [pair for node in cluster.nodes for pair in pairs_of(cluster, node, every=every)]


layouts = st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(layouts)
def test_every_port_is_tested_both_ways_by_few(layout: list[list[int]]) -> None:
    cluster = cluster_of(layout)
    pairs = {(pair.node, pair.port.netdev, pair.peer, pair.peer_port.netdev) for pair in all_of(cluster)}
    assert {(peer, to, node, port) for node, port, peer, to in pairs} == pairs
    with_peers = {(node, port.netdev) for node, port in cluster.ports() if any(cluster.peers(node, port))}
    assert {(node, port) for node, port, _, _ in pairs} == with_peers
    most = Counter((node, port) for node, port, _, _ in pairs)
    # 4 neighbours at most, each with as many ports as a node has here.
    assert max(most.values(), default=0) <= max(ALL_PAIRS_PORTS - 1, 4 * 4)


@settings(max_examples=30, deadline=None)
@given(layouts)
def test_all_pairs_are_all(layout: list[list[int]]) -> None:
    cluster = cluster_of(layout)
    assert len(all_of(cluster, every=True)) == sum(len(list(cluster.peers(*end))) for end in cluster.ports())


@settings(max_examples=30, deadline=None)
@given(layouts, st.data())
def test_pairs_to_some_addresses_are_those_of_all_pairs(layout: list[list[int]], data: st.DataObject) -> None:
    cluster = cluster_of(layout)
    pairs = Pairs(cluster)
    addresses = {port.address for _, port in cluster.ports() if data.draw(st.booleans())}
    for node in cluster.nodes:
        expected = [pair for pair in pairs.of(node, every=True) if pair.peer_port.address in addresses]
        assert list(pairs.to(node, addresses)) == expected


def test_the_pairs_of_a_large_rail_grow_with_its_ports() -> None:
    for nodes in (16, 64, 256):
        assert len(all_of(cluster_of([[0, 1]] * nodes))) <= 4 * 2 * nodes


def test_a_small_rail_is_tested_whole() -> None:
    assert len(all_of(cluster_of([[0]] * ALL_PAIRS_PORTS))) == ALL_PAIRS_PORTS * (ALL_PAIRS_PORTS - 1)


def test_neighbours_are_not_all_behind_one_switch() -> None:
    """With sixteen nodes to a switch, in the order of the file, half of what a node tests is behind another."""
    pairs = all_of(cluster_of([[0]] * 64))
    across = [pair for pair in pairs if int(pair.node[1:]) // 16 != int(pair.peer[1:]) // 16]
    assert len(across) >= len(pairs) / 3
