"""TCP segments that this node sent to each other node, and how many of them again, from the kernel's connections.

A segment that is sent again may have arrived, and only its acknowledgement was late: the peer reports that by DSACK.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterable

from railbed.fleet.sample.node.group import CounterGroup
from railbed.fleet.sample.node.sockets import TcpConnection

LEAST_SEGMENTS = 100
"""Ranks open connections to all others and use few of them; the others have sent no more than a greeting."""
MOST_PEERS = 16
"""Of one interface, in the order in which they exchanged that much."""
FORGET_AFTER = 10
"""Samples. A list may lack a connection by chance, which would be counted twice if it were forgotten at once."""
WRAP = 1 << 32
NAMES = ("segments", "retransmits", "needless")


class Peers:
    """Adds up what all connections to other nodes sent, also of those that are closed."""

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = {_number(address) for address in wanted}
        self._known: dict[int, tuple[int, ...]] = {}
        """The three counts, and the number of the last sample that had it, by a connection's cookie."""
        self._samples = 0
        self.sent: dict[tuple[int, int], list[int]] = {}
        """Segments, those sent again, and those sent again needlessly, by local address and peer."""

    def add(self, connections: Iterable[TcpConnection]) -> None:
        """Take a sample of all connections."""
        self._samples += 1
        for link in connections:
            if link.peer not in self._wanted:
                continue
            counts = link.segments, link.again, link.needless
            before = self._known.get(link.cookie, (0, 0, 0))
            total = self.sent.setdefault((link.local, link.peer), [0, 0, 0])
            for place, count in enumerate(counts):
                total[place] += (count - before[place]) % WRAP
            self._known[link.cookie] = *counts, self._samples
        if self._samples % FORGET_AFTER == 0:
            oldest = self._samples - FORGET_AFTER
            self._known = {cookie: known for cookie, known in self._known.items() if known[-1] > oldest}

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of local address and peer that a fair amount was sent between."""
        return [pair for pair, (segments, *_) in self.sent.items() if segments >= LEAST_SEGMENTS]


class PortPeers(CounterGroup):
    """The segments that one interface sent to each peer, as of the last sample."""

    source = "tcp_peer"

    def __init__(self, port: str, address: int, peers: Peers) -> None:
        self.port = port
        self._peers = peers
        self._shown = [pair for pair in peers.pairs() if pair[0] == address][:MOST_PEERS]
        self.names = [f"{name}@{_text(peer)}" for _, peer in self._shown for name in NAMES]

    def read(self) -> list[int | None]:
        """Return the counts of each peer."""
        return [count for pair in self._shown for count in self._peers.sent[pair]]


def _number(address: str) -> int:
    (number,) = struct.unpack("!I", socket.inet_aton(address))
    return int(number)


def _text(address: int) -> str:
    return socket.inet_ntoa(struct.pack("!I", address))
