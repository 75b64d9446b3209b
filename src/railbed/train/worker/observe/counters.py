"""The counters of this node, reported by its first rank: when the steps begin, every few seconds, when they end.

They are read by the rank, because it knows which steps they cover. Only files are read: a process that
uses MPI must not fork. TCP is counted by connection if the kernel supports it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from railbed.collective.group import Collective
from railbed.launch.messages import Messages
from railbed.train.network.tcp import RDMA_COUNTERS
from railbed.train.spec import TrainSpec
from railbed.train.worker.observe.connections import Watch, siblings, take_snapshot

FIRST_SECONDS, EVERY_SECONDS = 2.0, 10.0
"""Seconds until the first report after the beginning, and between later ones."""
SYS, PROC = Path("/sys/class"), Path("/proc/net")


class CounterReporter:
    """Reports the counters of a node."""

    def __init__(self, messages: Messages, transport: str, watch: Watch | None) -> None:
        self._messages = messages
        self._transport = transport
        self._watch = watch
        self._due = 0.0

    @classmethod
    def of(cls, job: TrainSpec, collective: Collective, messages: Messages) -> CounterReporter:
        """Return the reporter of a rank: only the first rank of a node reports, and only if there are several ranks."""
        if job.local_rank or job.world < 2:
            return cls(messages, collective.name, None)
        ranks = siblings() if job.local_world > 1 else [os.getpid()]
        return cls(messages, collective.name, Watch(lambda: take_snapshot(ranks), data_segments))

    def begin(self, step: int) -> None:
        """Report the counters before the first step."""
        if self._watch:
            self._watch.open()
        self._send(step, begin=True)
        self._due = time.monotonic() + FIRST_SECONDS

    def report_when_due(self, step: int) -> None:
        """Report the counters if the interval has passed."""
        if time.monotonic() >= self._due:
            self._send(step)
            self._due = time.monotonic() + EVERY_SECONDS

    def end(self, step: int) -> None:
        """Report the counters after the last step."""
        if self._watch:
            self._watch.settle()
        self._send(step)
        if self._watch:
            self._watch.close()

    def _send(self, step: int, *, begin: bool = False) -> None:
        if self._watch:
            counted = {**read_counters(), "connections": self._watch.read()}
            self._messages.send("counters", step=step, begin=begin, transport=self._transport, **counted)


def read_counters(sys: Path = SYS, proc: Path = PROC) -> dict[str, object]:
    """Return the counters of all RDMA ports and network interfaces; counters that a device does not have are absent."""
    return {
        "rdma": {
            f"{port.parent.parent.name}/{port.name}": dict(_numbers(port, RDMA_COUNTERS))
            for port in sorted(sys.glob("infiniband/*/ports/*"))
        },
        "net": {
            folder.name: {"tx_bytes": numbers["statistics/tx_bytes"], "mtu": numbers["mtu"]}
            for folder in sorted(sys.glob("net/*"))
            if len(numbers := dict(_numbers(folder, ("statistics/tx_bytes", "mtu")))) == 2
        },
        "tcp_segments": _tcp_segments(proc / "snmp"),
    }


def _numbers(folder: Path, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name in names:
        # Some drivers return `N/A (no PMA)`, others an error, for counters they do not support.
        with contextlib.suppress(OSError, ValueError):
            yield name, int((folder / name).read_text())


def _tcp_segments(path: Path) -> int | None:
    """Return how many segments TCP has sent, including retransmissions."""
    counted = _named_numbers(path, "Tcp:")
    return counted["OutSegs"] + counted["RetransSegs"] if {"OutSegs", "RetransSegs"} <= counted.keys() else None


def data_segments(path: Path = PROC / "netstat") -> int | None:
    """Return how many segments with data TCP has sent, each counted once, without pure acknowledgements."""
    return _named_numbers(path, "TcpExt:").get("TCPOrigDataSent")


def _named_numbers(path: Path, title: str) -> dict[str, int]:
    """Return the numbers of a file that has a line of names and a line of numbers for each title."""
    try:
        names, values = (line.split()[1:] for line in path.read_text().splitlines() if line.startswith(title))
        return dict(zip(names, map(int, values), strict=True))
    except (OSError, ValueError):
        return {}
