"""Whose the bytes of a node's connections are: the training's, or those of other programs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from railbed.fleet.sample.clock import ControlClock
from railbed.fleet.sample.intake import Intake
from railbed.fleet.sample.node import traffic
from railbed.fleet.sample.node.owners import Owners
from railbed.fleet.sample.node.traffic import LEAST_BYTES, NAMED_BYTES, PortTraffic, TrafficCounter
from railbed.fleet.sample.nodes import ReaderState, RowReader
from railbed.model import events
from railbed.model.record import Event
from railbed.parsing.counters import ForeignConnection

LOCAL, PEER = int(ip_address("10.1.0.1")), int(ip_address("10.1.0.2"))
OURS, THEIRS = 1, 2
"""Inodes of sockets."""


class Link:
    """A connection as the kernel lists it."""

    def __init__(self, inode: int, sent: int = 0, received: int = 0, *, cookie: int | None = None) -> None:
        self.cookie, self.inode, self.user = inode if cookie is None else cookie, inode, 1000
        self.local, self.peer, self.ports = LOCAL, PEER, (4000, 5201)
        self.sent, self.received = sent, received


class Kernel:
    """The kernel's list, and the processes that hold sockets."""

    def __init__(self) -> None:
        self.all: list[Link] = []
        self.are_known = True
        self.training: set[int] | None = {OURS}
        self.names = {THEIRS: ("7", "iperf3")}
        self.looked = 0

    def training_sockets(self) -> set[int] | None:
        self.looked += 1
        return self.training

    def programs(self, inodes: set[int]) -> dict[int, tuple[str, str]]:
        return {inode: self.names[inode] for inode in inodes if inode in self.names}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(traffic, "SHARE_OF_TIME", float("inf"))
    return Kernel()


def counter_of(kernel: Kernel) -> TrafficCounter:
    double: Any = kernel
    return TrafficCounter(double, double)


def sampled(counted: TrafficCounter, kernel: Kernel, *links: Link) -> list[int | None]:
    """Return the values of the port after a reading with these connections."""
    kernel.all = list(links)
    counted.refresh()
    return PortTraffic("rail0", LOCAL, counted).read()


def test_bytes_of_the_training_and_of_others(kernel: Kernel) -> None:
    counted = counter_of(kernel)
    much = 10 * LEAST_BYTES
    assert sampled(counted, kernel, Link(OURS, 77)) == [None] * 6, "no process of the training was seen"
    assert sampled(counted, kernel, Link(OURS, 77 + much, 9)) == [much, 9, 0, 0, None, None]
    # A connection that is new counts from its first byte, but not before it has carried enough to look for its owner.
    small = Link(THEIRS, LEAST_BYTES - 1)
    assert sampled(counted, kernel, Link(OURS, 77 + much, 9), small) == [much, 9, 0, 0, None, None]
    large = Link(THEIRS, LEAST_BYTES, 5)
    assert sampled(counted, kernel, Link(OURS, 77 + much, 9), large) == [much, 9, LEAST_BYTES, 5, PEER, PEER]
    assert sampled(counted, kernel, Link(OURS, 77 + much, 9), large) == [much, 9, LEAST_BYTES, 5, None, None]
    assert kernel.looked == 2, "each connection's owner is looked for once"


def test_what_was_carried_before_sampling_does_not_count(kernel: Kernel) -> None:
    counted = counter_of(kernel)
    sampled(counted, kernel, Link(OURS, 50_000_000), Link(THEIRS, 90_000_000))
    links = Link(OURS, 51_000_000), Link(THEIRS, 92_000_000)
    assert sampled(counted, kernel, *links) == [1_000_000, 0, 2_000_000, 0, PEER, None]


def test_without_ranks_nothing_is_foreign(kernel: Kernel) -> None:
    kernel.training = None
    counted = counter_of(kernel)
    sampled(counted, kernel)
    assert sampled(counted, kernel, Link(THEIRS, 10_000_000)) == [None] * 6
    kernel.training = {OURS}
    assert sampled(counted, kernel, Link(THEIRS, 11_000_000)) == [0, 0, 1_000_000, 0, PEER, None]


def test_unclear_traffic_is_missing_and_counted_later(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = counter_of(kernel)
    sampled(counted, kernel)
    sampled(counted, kernel, Link(OURS, 1_000_000))
    monkeypatch.setattr(counted, "_next_owners", float("inf"))  # looking for owners has taken a while
    assert sampled(counted, kernel, Link(OURS, 2_000_000), Link(THEIRS, 4_000_000)) == [None] * 6
    monkeypatch.setattr(counted, "_next_owners", 0.0)
    assert sampled(counted, kernel, Link(OURS, 3_000_000), Link(THEIRS, 5_000_000)) == [
        *(3_000_000, 0, 5_000_000, 0),
        *(PEER, None),
    ]


def test_a_list_may_lack_a_connection_by_chance(kernel: Kernel) -> None:
    counted = counter_of(kernel)
    sampled(counted, kernel)
    sampled(counted, kernel, Link(OURS, 1_000_000))
    sampled(counted, kernel)
    assert sampled(counted, kernel, Link(OURS, 1_500_000)) == [1_500_000, 0, 0, 0, None, None]


def test_other_programs_are_reported_once(kernel: Kernel) -> None:
    counted = counter_of(kernel)
    sampled(counted, kernel)
    hidden = 3
    sampled(counted, kernel, Link(THEIRS, NAMED_BYTES), Link(THEIRS, NAMED_BYTES, cookie=8), Link(hidden, NAMED_BYTES))
    ends = ["10.1.0.1:4000", "10.1.0.2:5201"]
    assert counted.strangers == [[*ends, "7", "iperf3"], [*ends, "", "a program of user 1000"]]
    counted.strangers = []
    sampled(counted, kernel, Link(THEIRS, 2 * NAMED_BYTES))
    assert counted.strangers == []


def test_too_many_connections_are_not_measured(kernel: Kernel) -> None:
    counted = counter_of(kernel)
    sampled(counted, kernel)
    sampled(counted, kernel, Link(OURS, 1_000_000))
    kernel.are_known = False
    assert sampled(counted, kernel) == [None] * 6


def test_the_training_is_what_works_in_its_folder_and_what_that_starts(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "runs" / "20260101-120000-train" / "node1"
    folder.mkdir(parents=True)
    owners = Owners("runs/20260101-120000-train")
    assert owners.training_sockets() is None
    program = (
        "import os, socket, sys, time; held = socket.socket(); "
        "child = os.fork(); child or os.chdir('/'); other = socket.socket(); "
        "os.write(1, b'%d %d\\n' % (os.fstat(held.fileno()).st_ino, os.fstat(other.fileno()).st_ino)); time.sleep(600)"
    )
    with (
        socket.socket() as foreign,
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=folder, stdout=-1, text=True, start_new_session=True
        ) as process,
    ):
        assert process.stdout
        try:
            lines = [process.stdout.readline().split() for _ in range(2)]
            inodes = {int(inode) for line in lines for inode in line}
            sockets = owners.training_sockets()
            mine = os.fstat(foreign.fileno()).st_ino
            assert sockets is not None
            assert (len(inodes), sockets >= inodes, mine in sockets) == (3, True, False)
            assert owners.programs({mine, *inodes})[mine][0] == str(os.getpid())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert Owners("runs/20260101-120000-train", proc=str(tmp_path / "none")).training_sockets() is None


def test_a_program_becomes_an_event() -> None:
    emitted: list[Event] = []
    intake = Intake("a", lambda _: None, emitted.append)
    rows = RowReader(ReaderState("a", 1.0, ControlClock(), intake, emitted.append))
    rows.take(ForeignConnection("10.1.0.1:4000", "10.1.0.2:5201", "7", "ip\x1bf"))
    rows.take(ForeignConnection("10.1.0.1:4000", "10.1.0.2:5201", "", "a program of user 1000"))
    named, hidden = emitted
    assert isinstance(named, events.ForeignTraffic)
    assert isinstance(hidden, events.ForeignTraffic)
    assert (named.subject, named.process, hidden.program, hidden.process) == ("a", 7, "", None)
    assert "\x1b" not in named.message
    assert hidden.message == (
        "a program of user 1000 uses the network beside the training: 10.1.0.1:4000 with 10.1.0.2:5201"
    )
