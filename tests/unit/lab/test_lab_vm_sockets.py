"""The hub between nodes, and the client of QEMU's protocol, each against real sockets."""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from railbed.lab.host import HostFault
from railbed.lab.vm.qemu import hub, qmp

BROADCAST = b"\xff" * 6
Switch = tuple[selectors.BaseSelector, hub.HubRail]
ADDRESSES = [bytes([2, 0, 0, 0, 0, number]) for number in range(1, 4)]


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    monkeypatch.chdir(tmp_path)
    nodes = [node_socket(number) for number in range(1, 4)]
    yield nodes
    for node in nodes:
        node.close()


@pytest.fixture
def switch(nodes: list[socket.socket]) -> Iterator[Switch]:
    with selectors.DefaultSelector() as selector:
        rail = hub.HubRail(selector, "rail0", len(nodes))
        yield selector, rail
        rail.close()


def node_socket(number: int) -> socket.socket:
    node = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    Path(f"node{number}-rail0").unlink(missing_ok=True)
    node.bind(f"node{number}-rail0")
    node.setblocking(False)
    return node


def forward(switch: Switch) -> None:
    while hub.turn(switch[0], 0):
        pass


def frames(node: socket.socket) -> list[bytes]:
    received = []
    while True:
        try:
            received.append(node.recv(70000))
        except BlockingIOError:
            return received


def test_a_hub_floods_what_it_does_not_know_and_then_knows(switch: Switch, nodes: list[socket.socket]) -> None:
    first, second, third = nodes
    hello = BROADCAST + ADDRESSES[0] + b"hello"
    first.sendto(hello, "hub-rail0")
    forward(switch)
    assert (frames(first), frames(second), frames(third)) == ([], [hello], [hello])
    answer = ADDRESSES[0] + ADDRESSES[1] + bytes(9000)
    second.sendto(answer, "hub-rail0")
    forward(switch)
    assert (frames(first), frames(second), frames(third)) == ([answer], [], [])


def test_a_hub_passes_over_strangers_and_scraps(switch: Switch, nodes: list[socket.socket]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(BROADCAST + ADDRESSES[2] + b"hello", "hub-rail0")
    nodes[0].sendto(b"short", "hub-rail0")
    forward(switch)
    assert [frames(node) for node in nodes] == [[], [], []]


def test_a_hub_keeps_frames_for_a_slow_node_in_order_and_not_too_many(
    switch: Switch, nodes: list[socket.socket]
) -> None:
    first, second, third = nodes
    sent = [BROADCAST + ADDRESSES[0] + number.to_bytes(2, "big") + bytes(100) for number in range(2000)]
    received: list[bytes] = []
    for frame in sent:
        first.sendto(frame, "hub-rail0")
        forward(switch)
        received += frames(third)
    assert received == sent
    late: list[bytes] = []
    while some := frames(second):
        late += some
        forward(switch)
    assert late == sent[: len(late)]
    assert hub.MOST_WAITING <= len(late) < len(sent)


def test_a_node_that_was_off_is_reached_again(switch: Switch, nodes: list[socket.socket]) -> None:
    first, second, _ = nodes
    hello = BROADCAST + ADDRESSES[0] + b"hello"
    for _ in range(50):
        first.sendto(hello, "hub-rail0")
        forward(switch)
    second.close()
    for _ in range(2):
        first.sendto(hello, "hub-rail0")
        forward(switch)
    with node_socket(2) as back:
        first.sendto(hello, "hub-rail0")
        forward(switch)
        assert frames(back) == [hello]


def test_a_hub_forgets_rather_than_grow(switch: Switch, nodes: list[socket.socket]) -> None:
    for number in range(hub.MOST_ADDRESSES + 10):
        nodes[0].sendto(BROADCAST + b"\2\0\0\1" + number.to_bytes(2, "big") + b"hello", "hub-rail0")
        forward(switch)
        frames(nodes[1])
    assert 0 < len(switch[1].learnt) <= hub.MOST_ADDRESSES


Answer = Callable[[str], list[dict[str, object] | bytes]]


@asynccontextmanager
async def fake_qemu(path: Path, answers: Answer) -> AsyncIterator[None]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"QMP": {"version": {}, "capabilities": []}}\n')
        while line := await reader.readline():
            request = json.loads(line)["execute"]
            for answer in [{"return": {}}] if request == "qmp_capabilities" else answers(request):
                writer.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n")
            if request == "quit":
                break
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield


async def test_answers_are_found_between_events(tmp_path: Path) -> None:
    answers: list[dict[str, object] | bytes] = [{"event": "STOP"}, {"return": {"status": "paused"}}]
    async with fake_qemu(tmp_path / "qmp.sock", lambda _: answers), qmp.connect_qmp(tmp_path / "qmp.sock") as monitor:
        assert await monitor.execute("query-status") == {"status": "paused"}


@pytest.mark.parametrize(
    ("message", "seconds", "words"),
    [
        ([{"error": {"class": "x", "desc": "no such card"}}], 20, "QEMU refused set_link: no such card"),
        ([b"nonsense\n"], 20, "invalid JSON"),
        ([b"[1]\n"], 20, "QEMU sent"),
        ([], 0.2, "did not answer set_link within 0.2 s"),
    ],
)
async def test_what_is_not_an_answer_is_reported(
    tmp_path: Path, message: list[dict[str, object] | bytes], seconds: float, words: str
) -> None:
    async with fake_qemu(tmp_path / "qmp.sock", lambda _: message), qmp.connect_qmp(tmp_path / "qmp.sock") as monitor:
        with pytest.raises(HostFault, match=words):
            await monitor.execute("set_link", seconds=seconds)


async def test_a_qemu_that_ends_is_reported(tmp_path: Path) -> None:
    async with fake_qemu(tmp_path / "qmp.sock", lambda _: []), qmp.connect_qmp(tmp_path / "qmp.sock") as monitor:
        with pytest.raises(HostFault, match="QEMU ended"):
            await monitor.execute("quit")


async def test_a_socket_may_come_late_and_its_path_may_be_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)

    answered = asyncio.Event()

    async def late() -> None:
        await asyncio.sleep(0.1)
        async with fake_qemu(Path("qmp.sock"), lambda _: [{"return": {}}]):
            await answered.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(late())
        async with qmp.connect_qmp(deep / "qmp.sock") as monitor:
            assert await monitor.execute("query-status") == {}
        answered.set()


async def test_nobody_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HostFault, match="cannot be reached"):
        async with qmp.connect_qmp(tmp_path / "qmp.sock", seconds=0.1):
            pass
