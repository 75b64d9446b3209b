"""Recording a node whose recorder is played by the test: what it sends, what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.disks import fill, small_disk

from railbed.capture import remote
from railbed.capture.methods import Method
from railbed.capture.record import Recorded, record
from railbed.capture.recording import PortPlan, RecordingLimits, RecordOrder
from railbed.capture.remote import NEEDS_RIGHTS
from railbed.errors import DeviceError, LoginRefused, UsageError
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Event

CLUSTER = Cluster.model_validate(
    {
        "name": "x",
        "rails": {"rail0": {"subnet": "10.1.0.0/24"}},
        "nodes": {
            name: {
                "host": f"10.0.0.{number}",
                "ports": [{"netdev": "eth0", "rail": "rail0", "address": f"10.1.0.{number}"}],
            }
            for number, name in enumerate("ab", start=1)
        },
    }
)
METHOD = Method(name="kernel", source="eth0", why="")
PLANS = [PortPlan(node=node, port=port, method=METHOD) for node, port in CLUSTER.ports()]
DATA = b"packets, which contain\nlines\n" * 1000


class FakeRecorder:
    """A recorder that follows its orders, unless it has others."""

    def __init__(self, *, ready: bytes = b"Welcome!\nh 1 7\ny\n", data: bytes = DATA, totals: object = None) -> None:
        self._output = asyncio.Queue[bytes]()
        self._output.put_nowait(ready)
        self._totals = {"captured": 9, "dropped": 2, "interface_dropped": 1, "size": 5} if totals is None else totals
        self._data = data
        self.orders: list[bytes] = []

    async def write(self, data: bytes) -> None:
        if data == b"s\n":
            ending = {"began": 5, "ended": 8, "ports": {"eth0": self._totals}}
            self._output.put_nowait(b"t " + json.dumps(ending).encode() + b"\n")
        if data == b"f\n":
            self._output.put_nowait(b"d eth0 %d\n" % len(DATA) + self._data[:5])
            self._output.put_nowait(self._data[5:] + (b"z\n" if self._data == DATA else b""))
            self._output.put_nowait(b"")
        if data.startswith(b"p ") and self.orders and self.orders[-1] != b"f\n":
            self._output.put_nowait(b"q 1\n")
        if not data.startswith(b"p "):
            self.orders.append(data[-2:])

    async def read(self, stream: int) -> bytes:
        return await self._output.get() if stream == 1 else b"sh: python3: not found\n"


class FakeFleet:
    """Two nodes, each with a recorder or an error."""

    def __init__(self, **nodes: FakeRecorder | Exception) -> None:
        self._nodes = nodes

    @asynccontextmanager
    async def open(self, device: str, command: str) -> AsyncIterator[FakeRecorder]:
        assert "sudo -n" in command
        node = self._nodes[device]
        if isinstance(node, Exception):
            raise node
        yield node

    async def hang_up_if_broken(self, device: str) -> None:
        assert device in self._nodes


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "SILENCE_SECONDS", 0.3)
    monkeypatch.setattr(remote, "START_SECONDS", 0.3)
    monkeypatch.setattr(remote, "BEAT_SECONDS", 0.05)


async def recorded(folder: Path, **nodes: FakeRecorder | Exception) -> tuple[list[Event], Recorded]:
    """Record both nodes for a moment."""
    fleet: Any = FakeFleet(**nodes)
    result = Recorded()
    order = RecordOrder(plans=PLANS, limits=RecordingLimits(seconds=0.05), folder=folder)
    async with asyncio.timeout(60):
        emitted = [event async for event in record(CLUSTER, fleet, order, asyncio.Event(), result)]
    return emitted, result


async def test_both_nodes_begin_together_and_their_packets_are_stored(tmp_path: Path) -> None:
    first, second = FakeRecorder(), FakeRecorder()
    emitted, result = await recorded(tmp_path, a=first, b=second)
    assert first.orders[1:] == second.orders[1:] == [b"g\n", b"s\n", b"f\n"]
    (started,) = [event for event in emitted if isinstance(event, events.CaptureStarted)]
    assert started.ports == ["a/eth0", "b/eth0"]
    ports = {event.subject: event for event in emitted if isinstance(event, events.PortCaptured)}
    assert (ports["a/eth0"].captured, ports["a/eth0"].dropped, ports["a/eth0"].bytes) == (9, 3, len(DATA))
    assert (tmp_path / "b" / "eth0.pcap").read_bytes() == DATA
    assert (tmp_path / "b" / "eth0.pcap").stat().st_mode & 0o777 == 0o600
    assert [port.span for port in result.ports] == [(5, 8), (5, 8)]
    assert result.lost == {}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (lambda: LoginRefused("no such account"), "no such account"),
        (lambda: FakeRecorder(ready=b"h 1 7\ne tcpdump is not installed\n"), "tcpdump is not installed"),
        (
            lambda: FakeRecorder(ready=b"h 1 7\ne eth0: You don't have permission to capture on that device\n"),
            NEEDS_RIGHTS,
        ),
        (lambda: FakeRecorder(ready=b"h 1 7\nwhat?\n"), "its recorder sent something else"),
        (lambda: FakeRecorder(ready=b"h 1 7\nn {\n"), "its recorder sent something else"),
        (lambda: FakeRecorder(ready=b"x\n" * 1000), "its login printed much more than a banner"),
        (lambda: FakeRecorder(ready=b"h 1 7\n"), "its recorder did not start within 0.3 s"),
        (lambda: FakeRecorder(data=b"half"), "its recorder ended while it sent packets"),
        (lambda: FakeRecorder(totals="none"), "its recorder sent something else"),
    ],
)
async def test_a_node_that_fails_is_a_value(tmp_path: Path, other: Any, why: str) -> None:
    _, result = await recorded(tmp_path, a=FakeRecorder(), b=other())
    assert [port.plan.node for port in result.ports] == ["a"]
    assert result.lost["b"].startswith(why)


async def test_without_any_node_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no packets can be recorded: a: one reason; b: another"):
        await recorded(tmp_path, a=LoginRefused("one reason"), b=LoginRefused("another"))


async def test_a_full_disk_here_is_named(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(disk, leave=8192)
        with pytest.raises(UsageError, match=r"the packets cannot be stored in .*: the disk is full"):
            await recorded(disk / "raw", a=FakeRecorder(), b=FakeRecorder())
