"""The reader: samples the counters of this node at fixed times and writes them to standard output, one line a sample.

Input, one line each: the order as JSON (see `ReaderOrder`), then `p NUMBER` as a heartbeat and `g TIME` to begin.
Output: `h VERSION` at the start, `l LAYOUT` (JSON) whenever the series change, `r TIME VALUE…` with `-` for a missing
value, `q NUMBER TIME WALL` as the answer to a heartbeat, `t CONNECTION` (JSON) for a connection of a program that is
not part of the training, and `e TEXT` before it ends by a fault. Times are microseconds on the monotonic clock, which
no one sets; WALL is the time of day.

It writes no file, starts no process, and ends with its input. If its input falls silent, as after a power cut at the
other end, the kernel ends it, even in the middle of a write: the heartbeats renew an alarm.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Sequence

from railbed.fleet.sample.node import ethtool, files, owners, peers, qdisc, sockets, traffic
from railbed.fleet.sample.node.group import CounterGroup

VERSION = 1
START_SECONDS, LEASE_SECONDS = 60, 10
RESCAN_SECONDS = 5.0
NEVER = 1 << 62
MOST_WAIT = 3600.0
SYS = "/sys/class"
NVIDIA = "/proc/driver/nvidia"


class ReaderOrder:
    """What to sample, from the first line of input."""

    def __init__(self, line: bytes) -> None:
        wanted = json.loads(line)
        self.interval_us: int = wanted["interval_us"]
        self.ports: list[str] = wanted["ports"]
        self.peers: list[str] = wanted["peers"]
        self.rdma: list[str] = wanted["rdma"]
        self.ethtool = set(wanted["ethtool"])
        self.training: str = wanted["training"]
        """The folder, below the working directory, that its processes work in; empty if no training is sampled."""


class Sources:
    """Everything that this node counts."""

    def __init__(self, order: ReaderOrder, sys: str = SYS) -> None:
        self._order = order
        self._sys = sys
        self._disciplines = qdisc.Disciplines()
        self._connections = sockets.TcpSockets()
        self._traffic = (
            traffic.TrafficCounter(self._connections, owners.Owners(order.training)) if order.training else None
        )
        self._peers = peers.Peers(order.peers)
        self._gpus = _gpus()
        self._layout = ""
        self._groups: list[CounterGroup] = []
        self.scan()

    def scan(self) -> None:
        """Find the devices and their counters again."""
        for group in self._groups:
            group.close()
        self._devices, self._pairs = self._find_devices(), self._peers.pairs()
        groups = [*self._host_and_ports(), *files.rdma_files(self._sys, self._order.rdma), *self._gpus]
        for group in groups:
            if not group.names:
                group.close()
        self._groups = [group for group in groups if group.names]

    def changed_layout(self) -> str:
        """Return the layout if it is another than at the last call, otherwise an empty string."""
        layout = json.dumps([[group.source, group.port, list(group.names)] for group in self._groups])
        changed = layout != self._layout
        self._layout = layout
        return layout if changed else ""

    def are_outdated(self) -> bool:
        """Whether a device came or went, there is another peer, or a driver has other counters than before."""
        changed = self._find_devices() != self._devices or self._peers.pairs() != self._pairs
        return changed or any(group.has_changed() for group in self._groups)

    def read(self) -> list[int | None]:
        """Return the value of every series, in the order of the layout."""
        self._disciplines.refresh()
        self._connections.refresh()
        if self._traffic:
            self._traffic.refresh()
        self._peers.add(self._connections.all)
        values: list[int | None] = []
        for group in self._groups:
            try:
                values += group.read()
            except OSError:
                values += [None] * len(group.names)
        return values

    def strangers(self) -> list[list[str]]:
        """Return the connections of other programs that were found since the last call."""
        if not self._traffic:
            return []
        new, self._traffic.strangers = self._traffic.strangers, []
        return new

    def close(self) -> None:
        """Close files and sockets."""
        for group in self._groups:
            group.close()

    def _host_and_ports(self) -> list[CounterGroup]:
        names = files.interfaces(self._sys, self._order.ports)
        self._disciplines.refresh()
        indices = {name: _index(name) for name in names}
        addresses = {name: sockets.address_of(name) for name in names}
        queues = [name for name in names if indices[name] in self._disciplines.counters]
        return [
            files.Host(),
            *(files.interface_files(self._sys, name) for name in names),
            *(ethtool.EthtoolCounters(name, self._order.ethtool) for name in names),
            *(qdisc.PortDiscipline(name, indices[name], self._disciplines) for name in queues),
            *(sockets.PortConnections(name, addresses[name], self._connections) for name in names if addresses[name]),
            *self._traffic_of({name: address for name, address in addresses.items() if address}),
            *(peers.PortPeers(name, addresses[name], self._peers) for name in names if addresses[name]),
        ]

    def _traffic_of(self, addresses: dict[str, int]) -> list[CounterGroup]:
        if not self._traffic:
            return []
        return [traffic.PortTraffic(name, address, self._traffic) for name, address in addresses.items()]

    def _find_devices(self) -> list[tuple[str, int, int]]:
        """Return path, identity and address of each device: files of one that was replaced cannot be read any more."""
        rdma = [f"{self._sys}/infiniband/{name}" for name in files.listing(f"{self._sys}/infiniband")]
        ports = files.interfaces(self._sys, self._order.ports)
        return [(path, files.identity(path), 0) for path in rdma] + [
            (name, files.identity(f"{self._sys}/net/{name}"), sockets.address_of(name)) for name in ports
        ]


class Reader:
    """The loop: answers heartbeats at once, and samples when it is time."""

    def __init__(self) -> None:
        self._input = b""
        self._order = ReaderOrder(self._line())
        self._due = NEVER
        self._rescan = time.monotonic() + RESCAN_SECONDS

    def run(self) -> None:
        """Serve until the input ends."""
        write(f"h {VERSION} {os.getpid()}")
        self._sources = Sources(self._order)
        write(f"l {self._sources.changed_layout()}")
        while True:
            while b"\n" in self._input:  # before a sample, so that a heartbeat does not wait for it
                self._obey(self._line())
            if now_us() >= self._due:
                self._tick()
            wait = min(MOST_WAIT, max(0.0, (self._due - now_us()) / 1e6))
            if select.select([0], [], [], wait)[0] and not self._receive():
                self._sources.close()
                return

    def _obey(self, line: bytes) -> None:
        arrived, wall = both_clocks()
        kind, _, value = line.partition(b" ")
        if kind == b"p":
            write(f"q {int(value)} {arrived} {wall}")
            signal.alarm(LEASE_SECONDS)
        elif kind == b"g":
            self._due = int(value)

    def _tick(self) -> None:
        before = now_us()
        values = self._sources.read()
        moment = (before + now_us()) // 2
        write(f"r {moment} " + " ".join(["-" if value is None else str(value) for value in values]))
        for connection in self._sources.strangers():
            write(f"t {json.dumps(connection)}")
        if time.monotonic() >= self._rescan:
            self._rescan = time.monotonic() + RESCAN_SECONDS
            self._scan_again()
        interval = self._order.interval_us
        # A fixed grid: a late sample does not delay the next, and those whose time has passed are left out.
        self._due += max(1, -(-(now_us() - self._due) // interval)) * interval

    def _scan_again(self) -> None:
        if self._sources.are_outdated():
            self._sources.scan()
            layout = self._sources.changed_layout()
            if layout:
                write(f"l {layout}")

    def _receive(self) -> bool:
        data = os.read(0, 65536)
        self._input += data
        return bool(data)

    def _line(self) -> bytes:
        while b"\n" not in self._input:
            if not self._receive():
                raise SystemExit
        line, _, self._input = self._input.partition(b"\n")
        return line


def now_us() -> int:
    """Return the time on the monotonic clock."""
    return time.monotonic_ns() // 1000


def both_clocks() -> tuple[int, int]:
    """Return the monotonic clock and the time of day at the same moment; again if this process was paused between."""
    for _ in range(10):
        moment, wall = now_us(), time.time_ns() // 1000
        if now_us() - moment < 500:
            break
    return moment, wall


def write(line: str) -> None:
    """Write a line to standard output."""
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return -1


def _gpus() -> Sequence[CounterGroup]:
    if not os.access(NVIDIA, os.F_OK):
        return []
    from railbed.fleet.sample.node import nvml  # ctypes is slow to load

    return nvml.gpus()


def main() -> None:
    """Run until the input ends; report a fault of our own in one line."""
    signal.alarm(START_SECONDS)
    try:
        Reader().run()
    except (BrokenPipeError, SystemExit):
        return
    except Exception as fault:
        write(f"e {type(fault).__name__}: {fault}".replace("\n", " "))
