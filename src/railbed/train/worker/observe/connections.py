"""TCP bytes of the ranks of this node and of other programs, from the kernel's counters of each connection.

A connection may come and go between two samples. So the node's data segments are read around every sample: those that
no connection accounts for bound the missed bytes. A thread takes samples often, to keep that small.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railbed.train.network.connections import Connection, addresses, connections
from railbed.transport.netlink import Unreadable

PROC = Path("/proc")
SAMPLE_SECONDS = 1.0
SHARE_OF_TIME = 0.01
"""The largest share of a core that sampling may take."""
SETTLE_SECONDS = 2.0
"""How long the last bytes of the ranks may take to leave."""
SEGMENTS_WRAP = 2**32
FORGET_AFTER = 5
"""A connection that is missing from this many samples in a row is closed."""


@dataclass(slots=True)
class _Known:
    """The last state of a connection."""

    sent: int = 0
    segments: int = 0
    again: int = 0
    of_ranks: bool | None = None
    """None if no process holds its socket."""
    seen_in: int = 0
    """Number of the last sample that listed it."""


@dataclass(slots=True)
class Sums:
    """Bytes that connections sent to other machines since the first sample."""

    ranks: Counter[str] = field(default_factory=Counter)
    """Bytes of the ranks, by interface."""
    others: Counter[str] = field(default_factory=Counter)
    """Bytes of other programs, by interface."""
    unclear: int = 0
    """Bytes of connections whose owner is unknown."""
    segments: int = 0
    """Data segments of all connections, each counted once, including connections within this machine."""

    def add(self, interface: str, of_ranks: bool | None, sent: int) -> None:
        """Add the bytes that a connection sent."""
        if of_ranks is None:
            self.unclear += sent
        else:
            (self.ranks if of_ranks else self.others)[interface] += sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The connections, addresses and sockets at one moment."""

    connections: Sequence[Connection]
    addresses: Mapping[str, str]
    """The interface of every address of this machine."""
    sockets: frozenset[int] | None
    """The inodes that the ranks hold; None if that cannot be seen."""


def take_snapshot(ranks: Iterable[int]) -> Snapshot:
    """Read the state of this machine; raise Unreadable if the kernel does not list it."""
    # Sockets are read last: the socket of a listed connection then still exists, or was closed meanwhile.
    return Snapshot(connections=connections(), addresses=addresses(), sockets=sockets_of(ranks))


class ConnectionTotals:
    """Adds up the bytes that all connections sent from one sample to the next."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._number = 0
        self._known: dict[int, _Known] = {}
        self._sockets: frozenset[int] = frozenset()

    def add(self, snapshot: Snapshot, *, begin: bool = False) -> None:
        """Add a sample; new connections count from their first byte, except in the first sample."""
        self._number += 1
        for link in snapshot.connections:
            known = self._known.get(link.cookie)
            if known is None:
                known = _Known(link.sent, link.segments, link.again) if begin else _Known()
                self._known[link.cookie] = known
            known.of_ranks, known.seen_in = self._owner(link, known, snapshot.sockets), self._number
            interface = snapshot.addresses.get(link.local, "")
            if interface != "lo" and link.remote not in snapshot.addresses:
                self.sums.add(interface, known.of_ranks, max(0, link.sent - known.sent))
            self.sums.segments += (link.segments - known.segments) % SEGMENTS_WRAP
            self.sums.segments -= (link.again - known.again) % SEGMENTS_WRAP
            known.sent, known.segments, known.again = max(link.sent, known.sent), link.segments, link.again
        self._sockets = snapshot.sockets or frozenset()
        # A list may lack a connection by chance: connections change while the kernel lists them.
        self._known = {
            cookie: link for cookie, link in self._known.items() if self._number - link.seen_in < FORGET_AFTER
        }

    def _owner(self, link: Connection, known: _Known, sockets: frozenset[int] | None) -> bool | None:
        """Whether ranks own a connection; a closed one that still sends belongs to its last owner."""
        if known.of_ranks or link.inode in self._sockets or link.inode in (sockets or ()):
            return True
        return known.of_ranks if not link.inode or sockets is None else False


class Watch:
    """Samples the connections of this node until it is closed."""

    def __init__(self, take_snapshot: Callable[[], Snapshot], segments: Callable[[], int | None]) -> None:
        self._take_snapshot = take_snapshot
        self._segments = segments
        self._totals = ConnectionTotals()
        self._reason = ""
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def open(self) -> None:
        """Begin: bytes sent before do not count."""
        # Twice, because a list may lack a connection by chance, which would count as new later.
        self._sample(begin=True)
        self._sample(begin=True)
        threading.Thread(target=self._sample_regularly, name="connections", daemon=True).start()

    def close(self) -> None:
        """Stop sampling."""
        self._closed.set()

    def settle(self) -> None:
        """Wait until the ranks' send queues are empty: a rank may be done before its last bytes have left the node."""
        latest = time.monotonic() + SETTLE_SECONDS
        with contextlib.suppress(Unreadable):
            while time.monotonic() < latest and _waiting(self._take_snapshot()):
                time.sleep(0.01)

    def read(self) -> dict[str, object]:
        """Take a sample, and return the bytes sent since the beginning, or a `reason` if they are unknown."""
        with self._lock:
            early = self._segments()
            self._sample()
            late = self._segments()
            if self._reason or early is None or late is None:
                return {"reason": self._reason or "the kernel does not count TCP's segments with data"}
            sums = self._totals.sums
            return {
                "node_segments": [early, late],
                "segments": sums.segments,
                "ranks": dict(sums.ranks),
                "others": dict(sums.others),
                "unclear": sums.unclear,
            }

    def _sample(self, *, begin: bool = False) -> None:
        if self._reason:
            return
        try:
            self._totals.add(self._take_snapshot(), begin=begin)
        except Unreadable as error:
            self._reason = str(error)

    def _sample_regularly(self) -> None:
        wait = SAMPLE_SECONDS
        while not self._closed.wait(wait) and not self._reason:
            begin = time.thread_time()
            with self._lock:
                self._sample()
            wait = max(SAMPLE_SECONDS, (time.thread_time() - begin) / SHARE_OF_TIME)


def _waiting(snapshot: Snapshot) -> bool:
    """Whether a connection of the ranks has bytes to send."""
    return any(link.waiting for link in snapshot.connections if link.inode in (snapshot.sockets or ()))


def sockets_of(processes: Iterable[int], proc: Path = PROC) -> frozenset[int] | None:
    """Return the inodes of the sockets that processes hold; None if one of them hides its own."""
    inodes: set[int] = set()
    for process in processes:
        try:
            links = [link.path for link in os.scandir(proc / str(process) / "fd")]
        except FileNotFoundError:
            continue  # it ended, and its sockets with it
        except OSError:
            return None
        for link in links:
            with contextlib.suppress(OSError):
                kind, _, number = os.readlink(link).partition(":")  # noqa: PTH115  (there may be thousands)
                if kind == "socket":
                    inodes.add(int(number.strip("[]")))
    return frozenset(inodes)


def siblings(proc: Path = PROC) -> list[int]:
    """Return this process and all others that the same process started: the ranks of this node."""
    parent = os.getppid()
    numbers = [int(folder.name) for folder in proc.iterdir() if folder.name.isdigit()]
    return sorted({os.getpid(), *(number for number in numbers if _parent(proc / str(number)) == parent)})


def _parent(process: Path) -> int | None:
    try:
        # The name of a program, in brackets, may contain spaces and brackets.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
