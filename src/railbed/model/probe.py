"""The shape of a probe: one source on one device, as a command and a pure parser; which ports test which others.

Testing all pairs of a large rail takes packets, processes and neighbour entries that grow with the square of its
ports: enough to make healthy nodes look broken. So a port of a large rail tests the nodes beside its own in the file
(mostly on the same switch) and those half a rail away (mostly on another switch). The number of pairs grows with the
number of ports, and every port is still tested as sender and as receiver: the tests go both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Generic, TypeVar

from railbed.model.cluster import Cluster, DeviceKind, Port

Address = IPv4Address | IPv6Address
ALL_PAIRS_PORTS = 8
"""On rails with at most this many ports, every port tests every other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One port that tests another on its rail."""

    node: str
    port: Port
    peer: str
    peer_port: Port


class _RailPorts:
    """The ports of a rail, in the order of the file."""

    def __init__(self) -> None:
        self.of_nodes: dict[str, list[Port]] = {}
        self.names: list[str] = []
        self.places: dict[str, int] = {}
        """The places of nodes in `names`."""
        self.at: dict[Address, list[tuple[int, str, Port]]] = {}
        """The ports by address, each with its number and node."""
        self.count = 0

    def add(self, node: str, port: Port) -> None:
        if node not in self.places:
            self.places[node] = len(self.names)
            self.names.append(node)
        self.of_nodes.setdefault(node, []).append(port)
        self.at.setdefault(port.address, []).append((self.count, node, port))
        self.count += 1


class Pairs:
    """The pairs of a cluster, which is walked only once for all its nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rails: dict[str, _RailPorts] = {}
        for node, port in cluster.ports():
            self._rails.setdefault(port.rail, _RailPorts()).add(node, port)

    def of(self, node: str, *, every: bool = False) -> Iterator[Pair]:
        """Yield the pairs that a node tests; with `every`, to all ports of other nodes on its rails."""
        for port in self._cluster.nodes[node].ports:
            for peer, peer_port in self._peers(node, port, every=every):
                yield Pair(node=node, port=port, peer=peer, peer_port=peer_port)

    def to(self, node: str, addresses: Collection[Address]) -> Iterator[Pair]:
        """Yield the pairs from a node to the ports of others at some addresses, in the order of `of`."""
        for port in self._cluster.nodes[node].ports:
            rail = self._rails[port.rail]
            place = rail.places[node]
            peers = self.peers_at(node, port, addresses)
            for peer, peer_port in sorted(peers, key=lambda end: (rail.places[end[0]] - place) % len(rail.names)):
                yield Pair(node=node, port=port, peer=peer, peer_port=peer_port)

    def peers_at(self, node: str, port: Port, addresses: Iterable[Address]) -> list[tuple[str, Port]]:
        """Return the ports of other nodes on the same rail at some addresses, in the order of the file."""
        at = self._rails[port.rail].at
        peers = {number: (peer, own) for address in addresses for number, peer, own in at.get(address, ())}
        return [peers[number] for number in sorted(peers) if peers[number][0] != node]

    def _peers(self, node: str, port: Port, *, every: bool) -> Iterator[tuple[str, Port]]:
        rail = self._rails[port.rail]
        everyone = every or rail.count <= ALL_PAIRS_PORTS
        own = rail.of_nodes[node]
        for distance in _distances(len(rail.names), everyone=everyone):
            peer = rail.names[(rail.places[node] + distance) % len(rail.names)]
            for index, peer_port in enumerate(rail.of_nodes[peer]):
                if everyone or _matches(own.index(port), index, min(len(own), len(rail.of_nodes[peer]))):
                    yield peer, peer_port


def pairs_of(cluster: Cluster, node: str, *, every: bool = False) -> Iterator[Pair]:
    """Yield the pairs of one node."""
    return Pairs(cluster).of(node, every=every)


def _distances(nodes: int, *, everyone: bool) -> list[int]:
    """Return the distances along the rail to the tested nodes; with each distance, its opposite."""
    if everyone:
        return list(range(1, nodes))
    half = nodes // 2
    return sorted({1, half, nodes - half, nodes - 1} - {0, nodes})


def _matches(first: int, second: int, ports: int) -> bool:
    """Whether two ports of neighbouring nodes test each other: every port has a partner, none tests all ports."""
    return first % ports == second % ports


F_co = TypeVar("F_co", covariant=True)
DeviceCommand = Callable[[Cluster, str], str]
"""Builds a command for one device from the cluster file; an empty command means that there is nothing to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTest:
    """How a probe tests other nodes from a node. Few such tests run at a time, and those that time out are repeated."""

    command: Callable[[Cluster, Sequence[Pair], bool], str]
    """Builds the command of a node for some of its pairs; with True, it waits longer and also measures the load."""
    timed_out: Callable[[Any], Collection[str]]
    """Returns the addresses of the peers that did not answer in time, from the facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Generic[F_co]):
    """One source: the command, and how to parse its output. It never runs the command itself."""

    name: str
    title: str
    """What it reads, in a few words, for `railbed parse --list` and the reference."""
    command: str | DeviceCommand | PairTest
    """On a node: POSIX shell, run with LC_ALL=C and the sbin folders on PATH, all of it in one round trip.

    On a switch: one command of its command line per line. The lines are alternatives, the first that the switch
    accepts is parsed: `show … | json` first, then the text form.
    """
    parse: Callable[[str], F_co]
    """Text to facts; raises ParseError on text it does not recognise, and nothing else."""
    facts: type[F_co]
    """The type `parse` returns, so that facts can be read back from JSON."""
    runs_on: DeviceKind = "node"
    """The kind of device it reads."""
    tool: str = ""
    """The program it needs; without it the facts are unknown and the finding says what to install."""
    package: str = ""
    """The Debian package of `tool`."""
    needs_root: bool = False
    """Run as root: directly, or through `sudo -n`."""
    timeout: float = 10.0
    """Seconds after which the command is ended on the device."""
    early: bool = False
    """Read first, before other commands load the device (clocks)."""
    one_line: bool = False
    """The output may be one long line, as JSON is; lines of text have a length limit."""
    twice: bool = False
    """Read again at the end, if wanted, to see which values increase (counters)."""

    def command_for(self, cluster: Cluster, device: str) -> str:
        """Return the command for one device of a cluster."""
        if isinstance(self.command, str):
            return self.command
        if isinstance(self.command, PairTest):
            return self.command.command(cluster, list(pairs_of(cluster, device)), False)
        return self.command(cluster, device)
