"""What TCP carried for the ranks of this node and for other programs, counted by the kernel for each connection.

A connection may come and go between two looks. So the node's segments with data are read around every look: those that
no connection accounts for bound what was missed. Looks come often, from a thread, to keep that small.
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

from railbed.train.network.netlink import Connection, Unreadable, addresses, connections

PROC = Path("/proc")
LOOK_SECONDS = 1.0
SHARE_OF_TIME = 0.01
"""The most of a core that looking may take."""
SEGMENTS_WRAP = 2**32
FORGET_LOOKS = 5
"""How many looks in a row must lack a connection before it is over."""


@dataclass(slots=True)
class _Known:
    """What is known of a connection."""

    sent: int = 0
    segments: int = 0
    again: int = 0
    of_ranks: bool | None = None
    """None if no process holds its socket."""
    look: int = 0
    """The last in which it was listed."""


@dataclass(slots=True)
class Sums:
    """What connections sent to other machines since the first look, in bytes."""

    ranks: Counter[str] = field(default_factory=Counter)
    """Those of the ranks, by interface."""
    others: Counter[str] = field(default_factory=Counter)
    """Those of other programs, by interface."""
    unclear: int = 0
    """Those that nobody can be found to own."""
    segments: int = 0
    """With data, each counted once, of all connections: those that stay on this machine included."""

    def add(self, interface: str, of_ranks: bool | None, sent: int) -> None:
        """Add what one connection sent."""
        if of_ranks is None:
            self.unclear += sent
        else:
            (self.ranks if of_ranks else self.others)[interface] += sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What there is at one moment."""

    connections: Sequence[Connection]
    addresses: Mapping[str, str]
    """The interface of every address of this machine."""
    sockets: frozenset[int] | None
    """The inodes that the ranks hold; None if that cannot be seen."""


def look(ranks: Iterable[int]) -> Look:
    """Look at this machine; raise Unreadable if the kernel does not tell."""
    # The sockets come last: one that is in the list of connections is then still there, or was closed meanwhile.
    return Look(connections=connections(), addresses=addresses(), sockets=sockets_of(ranks))


class Books:
    """Adds up what all connections sent from one look to the next."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._look = 0
        self._known: dict[int, _Known] = {}
        self._sockets: frozenset[int] = frozenset()

    def enter(self, snapshot: Look, *, begin: bool = False) -> None:
        """Take a look; what new connections have sent counts from their first byte, except at the beginning."""
        self._look += 1
        for link in snapshot.connections:
            known = self._known.get(link.cookie)
            if known is None:
                known = _Known(link.sent, link.segments, link.again) if begin else _Known()
                self._known[link.cookie] = known
            known.of_ranks, known.look = self._owner(link, known, snapshot.sockets), self._look
            interface = snapshot.addresses.get(link.local, "")
            if interface != "lo" and link.remote not in snapshot.addresses:
                self.sums.add(interface, known.of_ranks, max(0, link.sent - known.sent))
            self.sums.segments += (link.segments - known.segments) % SEGMENTS_WRAP
            self.sums.segments -= (link.again - known.again) % SEGMENTS_WRAP
            known.sent, known.segments, known.again = max(link.sent, known.sent), link.segments, link.again
        self._sockets = snapshot.sockets or frozenset()
        # A list may lack a connection by chance: the kernel does not stand still while it answers.
        self._known = {cookie: link for cookie, link in self._known.items() if self._look - link.look < FORGET_LOOKS}

    def _owner(self, link: Connection, known: _Known, sockets: frozenset[int] | None) -> bool | None:
        """Say whether ranks own a connection; one that was closed and still sends belongs to whom it belonged to."""
        if known.of_ranks or link.inode in self._sockets or link.inode in (sockets or ()):
            return True
        return known.of_ranks if not link.inode or sockets is None else False


class Watch:
    """Looks at the connections of this node until it is closed."""

    def __init__(self, look: Callable[[], Look], segments: Callable[[], int | None]) -> None:
        self._look = look
        self._segments = segments
        self._books = Books()
        self._reason = ""
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def open(self) -> None:
        """Begin: what was sent before does not count."""
        # Twice, because a list may lack a connection by chance, which would count as new later.
        self._enter(begin=True)
        self._enter(begin=True)
        threading.Thread(target=self._go_on, name="connections", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def read(self) -> dict[str, object]:
        """Look, and return what was sent since the beginning; `reason` says why that is not known."""
        with self._lock:
            early = self._segments()
            self._enter()
            late = self._segments()
            if self._reason or early is None or late is None:
                return {"reason": self._reason or "the kernel does not count TCP's segments with data"}
            sums = self._books.sums
            return {
                "node_segments": [early, late],
                "segments": sums.segments,
                "ranks": dict(sums.ranks),
                "others": dict(sums.others),
                "unclear": sums.unclear,
            }

    def _enter(self, *, begin: bool = False) -> None:
        if self._reason:
            return
        try:
            self._books.enter(self._look(), begin=begin)
        except Unreadable as error:
            self._reason = str(error)

    def _go_on(self) -> None:
        wait = LOOK_SECONDS
        while not self._closed.wait(wait) and not self._reason:
            begin = time.thread_time()
            with self._lock:
                self._enter()
            wait = max(LOOK_SECONDS, (time.thread_time() - begin) / SHARE_OF_TIME)


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
        # The name of a program, in brackets, may contain blanks and brackets.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
