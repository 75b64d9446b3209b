"""Queueing disciplines of network interfaces, from the kernel by rtnetlink: one dump for all interfaces."""

from __future__ import annotations

import struct

from railbed.fleet.sample.node.group import CounterGroup
from railbed.transport.netlink import ROUTE, KernelList, Unreadable, attributes

GET, NEW = 38, 36
MESSAGE = struct.Struct("=BxxxiIII")
"""Family, index of the interface, handle, parent and information."""
ROOT = 0xFFFFFFFF
STATISTICS, QUEUE = 7, 3
DISCIPLINES = KernelList("queueing disciplines", ROUTE, GET, NEW, MESSAGE.size)


class Disciplines:
    """The root discipline of interfaces: bytes that wait, packets dropped, times a packet had to wait for its rate."""

    def __init__(self) -> None:
        self.counters: dict[int, tuple[int, int, int]] = {}
        """By index of the interface; none if the kernel does not list them all."""

    def refresh(self) -> None:
        """Read the counters of all interfaces."""
        try:
            self.counters = dict(filter(None, map(counters_of, DISCIPLINES.read(bytes(MESSAGE.size)))))
        except Unreadable:
            self.counters = {}


class PortDiscipline(CounterGroup):
    """The discipline of one interface, as of the last refresh."""

    source = "qdisc"
    names = ("backlog_bytes", "drops", "overlimits")

    def __init__(self, port: str, index: int, disciplines: Disciplines) -> None:
        self.port = port
        self._index = index
        self._disciplines = disciplines

    def read(self) -> list[int | None]:
        """Return its counters."""
        return list(self._disciplines.counters.get(self._index, (None, None, None)))


def counters_of(message: bytes) -> tuple[int, tuple[int, int, int]] | None:
    """Return index and counters of a root discipline; None for others.

    An interface without a queue has counters, too: nothing waits there, which is worth knowing where packets wait on
    other nodes.
    """
    _, index, _, parent, _ = MESSAGE.unpack_from(message)
    values = attributes(message[MESSAGE.size :]) if parent == ROOT else {}
    queue = attributes(values.get(STATISTICS, b"")).get(QUEUE, b"")
    if len(queue) < 20:
        return None
    _, backlog, drops, _, overlimits = struct.unpack_from("=IIIII", queue)
    return index, (backlog, drops, overlimits)
