"""Whose the bytes of TCP connections are: those of the training that is sampled, or of other programs.

Looking for owners takes time, so it is done for connections that have carried much, once each.
"""

from __future__ import annotations

import time

from railbed.fleet.sample.node.group import CounterGroup
from railbed.fleet.sample.node.owners import Owners
from railbed.fleet.sample.node.sockets import TcpConnection, TcpSockets

LEAST_BYTES = 1 << 18
"""What a connection carries before its owner is looked for; these bytes are counted then."""
NAMED_BYTES = 1 << 20
"""What a connection of another program carries before that is looked for."""
MOST_NAMED = 50
SHARE_OF_TIME = 0.01
"""The largest share of a core that looking for owners may take."""
FORGET_AFTER = 5
"""A connection that is missing from this many readings in a row is closed: a list may lack one by chance."""


class _Known:
    """The state of a connection at the last reading."""

    __slots__ = ("foreign", "is_named", "is_of_training", "missing", "received", "sent")

    def __init__(self, sent: int, received: int) -> None:
        self.sent, self.received = sent, received
        """As far as its bytes are counted."""
        self.is_of_training: bool | None = None
        """None until its owner is known."""
        self.foreign = 0
        """Bytes that were counted as those of another program."""
        self.is_named = False
        self.missing = 0


class _Sums:
    """Bytes over one address of this node, since the first reading, and the peers of the busiest connections."""

    def __init__(self) -> None:
        self.training = [0, 0]
        self.foreign = [0, 0]
        """Sent and received."""
        self.peers: list[tuple[int, int | None]] = []

    def begin_reading(self) -> None:
        self.peers = [(0, None), (0, None)]

    def add(self, known: _Known, grown: tuple[int, int], peer: int) -> None:
        sums = self.training if known.is_of_training else self.foreign
        for direction, growth in enumerate(grown):
            sums[direction] += growth
            if not known.is_of_training and growth > self.peers[direction][0]:
                self.peers[direction] = growth, peer


class TrafficCounter:
    """Adds up the bytes of the training and of other programs, by address of this node."""

    def __init__(self, connections: TcpSockets, owners: Owners) -> None:
        self._connections = connections
        self._owners = owners
        self._known: dict[int, _Known] = {}
        self._sums: dict[int, _Sums] = {}
        self._unclear: set[int] = set()
        """Addresses of connections that carry much and whose owner is not known yet."""
        self._has_begun = self._has_training = False
        self._next_owners = self._next_programs = 0.0
        """When they may be looked for again."""
        self._named: set[tuple[int, int, str]] = set()
        self.strangers: list[list[str]] = []
        """Connections of other programs that were not reported yet: both ends, process, program."""

    def refresh(self) -> None:
        """Add what connections carried since the last reading."""
        if not self._connections.are_known:
            return
        links = [link for link in self._connections.all if link.sent is not None and link.received is not None]
        self._remember(links)
        self._look_for_owners(links)
        for sums in self._sums.values():
            sums.begin_reading()
        for link in links:
            self._count(link, self._known[link.cookie])
        self._look_for_programs(links)
        self._has_begun = True

    def of(self, address: int) -> list[int | None]:
        """Return the bytes over an address, and the peers that other programs sent most to and received most from.

        All None until processes of the training are seen, and while the owner of much traffic is not known.
        """
        if not (self._has_training and self._connections.are_known) or address in self._unclear:
            return [None] * len(PortTraffic.names)
        sums = self._sums.get(address)
        if sums is None:
            return [0, 0, 0, 0, None, None]
        return [*sums.training, *sums.foreign, *(peer for _, peer in sums.peers)]

    def _remember(self, links: list[TcpConnection]) -> None:
        """Note connections that are new, which count from their first byte, and forget those that are closed."""
        for known in self._known.values():
            known.missing += 1
        for link in links:
            if link.cookie not in self._known:
                self._known[link.cookie] = _Known(0, 0) if self._has_begun else _Known(*_count_bytes(link))
            self._known[link.cookie].missing = 0
        self._known = {cookie: known for cookie, known in self._known.items() if known.missing < FORGET_AFTER}

    def _look_for_owners(self, links: list[TcpConnection]) -> None:
        # One without an inode was closed by its owner, whoever that was.
        unclear = [link for link in links if link.inode and self._is_unclear(link)]
        self._unclear = {link.local for link in unclear}
        begin = time.monotonic()
        if not unclear or begin < self._next_owners:
            return
        training = self._owners.training_sockets()
        self._next_owners = _after_rest(begin)
        if training is None:
            for link in unclear:  # there are no ranks yet, or no longer: what is carried meanwhile disturbs no one
                known = self._known[link.cookie]
                known.sent, known.received = _count_bytes(link)
            return
        self._has_training, self._unclear = True, set()
        for link in unclear:
            self._known[link.cookie].is_of_training = link.inode in training

    def _is_unclear(self, link: TcpConnection) -> bool:
        known = self._known[link.cookie]
        return known.is_of_training is None and sum(_count_growth(link, known)) >= LEAST_BYTES

    def _count(self, link: TcpConnection, known: _Known) -> None:
        if known.is_of_training is None:
            return
        sums = self._sums.get(link.local)
        if sums is None:
            sums = self._sums[link.local] = _Sums()
            sums.begin_reading()
        grown = _count_growth(link, known)
        sums.add(known, grown, link.peer)
        known.foreign += 0 if known.is_of_training else sum(grown)
        known.sent, known.received = _count_bytes(link)

    def _look_for_programs(self, links: list[TcpConnection]) -> None:
        unnamed = [link for link in links if self._needs_name(self._known[link.cookie])]
        begin = time.monotonic()
        if not unnamed or len(self._named) >= MOST_NAMED or begin < self._next_programs:
            return
        programs = self._owners.programs({link.inode for link in unnamed})
        self._next_programs = _after_rest(begin)
        for link in unnamed:
            self._known[link.cookie].is_named = True
            process, program = programs.get(link.inode, ("", f"a program of user {link.user}"))
            if (link.local, link.peer, program) not in self._named:
                self._named.add((link.local, link.peer, program))
                ends = zip((link.local, link.peer), link.ports)  # noqa: B905  (older Pythons)
                self.strangers.append([*(f"{_format_address(end)}:{port}" for end, port in ends), process, program])

    def _needs_name(self, known: _Known) -> bool:
        return not known.is_named and known.foreign >= NAMED_BYTES


class PortTraffic(CounterGroup):
    """The bytes of TCP over one interface, as of the last refresh."""

    source = "tcp"
    names = (
        *("training_tx_bytes", "training_rx_bytes", "foreign_tx_bytes", "foreign_rx_bytes"),
        *("foreign_tx_peer", "foreign_rx_peer"),
    )

    def __init__(self, port: str, address: int, traffic: TrafficCounter) -> None:
        self.port = port
        self._address = address
        self._traffic = traffic

    def read(self) -> list[int | None]:
        """Return bytes and peers."""
        return self._traffic.of(self._address)


def _after_rest(begin: float) -> float:
    """Return when to do something again that began at a time and has ended now."""
    end = time.monotonic()
    return end + (end - begin) / SHARE_OF_TIME


def _count_bytes(link: TcpConnection) -> tuple[int, int]:
    return link.sent or 0, link.received or 0


def _count_growth(link: TcpConnection, known: _Known) -> tuple[int, int]:
    sent, received = _count_bytes(link)
    return max(0, sent - known.sent), max(0, received - known.received)


def _format_address(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
