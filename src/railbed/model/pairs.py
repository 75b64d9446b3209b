"""Which ports of a cluster test which others.

Testing all pairs of a large rail takes packets, processes and neighbour entries that grow with the square of its
ports: enough to make healthy nodes look broken. So a port of a large rail tests the nodes beside its own in the file
(mostly on the same switch) and those half a rail away (mostly on another switch). The number of pairs grows with the
number of ports, and every port is still tested as sender and as receiver: the tests go both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.cluster import Cluster, Port

ALL_PAIRS_PORTS = 8
"""On rails with at most this many ports, every port tests every other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One port that tests another on its rail."""

    node: str
    port: Port
    peer: str
    peer_port: Port


def pairs_of(cluster: Cluster, node: str, *, every: bool = False) -> Iterator[Pair]:
    """Yield the pairs that a node tests; with `every`, to all ports of other nodes on its rails."""
    for port in cluster.nodes[node].ports:
        for peer, peer_port in _peers(cluster, node, port, every=every):
            yield Pair(node=node, port=port, peer=peer, peer_port=peer_port)


def _peers(cluster: Cluster, node: str, port: Port, *, every: bool) -> Iterator[tuple[str, Port]]:
    rail: dict[str, list[Port]] = {}
    for name, other in cluster.ports():
        if other.rail == port.rail:
            rail.setdefault(name, []).append(other)
    everyone = every or sum(map(len, rail.values())) <= ALL_PAIRS_PORTS
    names = list(rail)
    own = rail[node]
    for distance in _distances(len(names), everyone=everyone):
        peer = names[(names.index(node) + distance) % len(names)]
        for index, peer_port in enumerate(rail[peer]):
            if everyone or _matches(own.index(port), index, min(len(own), len(rail[peer]))):
                yield peer, peer_port


def _distances(nodes: int, *, everyone: bool) -> list[int]:
    """Return the distances along the rail to the tested nodes; with each distance, its opposite."""
    if everyone:
        return list(range(1, nodes))
    half = nodes // 2
    return sorted({1, half, nodes - half, nodes - 1} - {0, nodes})


def _matches(first: int, second: int, ports: int) -> bool:
    """Whether two ports of neighbouring nodes test each other: every port has a partner, none tests all ports."""
    return first % ports == second % ports
