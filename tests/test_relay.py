"""Large parcels, from node to node: continued after every kind of interruption, verified, and for nobody else.

The nodes are processes on this machine, with a home folder and a loopback address each.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.files import client, relay
from railbed.launch.files.client import RELAY
from railbed.launch.files.distribute import Distribution
from railbed.launch.files.guard import BASE
from railbed.launch.files.partial import FOLDER, PIECE_BYTES, Copy, PieceVerifier
from railbed.launch.files.participant import Participant
from railbed.launch.files.relay import MOST_STRANGERS, RANDOM_BYTES, REQUEST, Broken, PieceServer, fetch
from railbed.launch.files.ship import Parcel, parcel
from railbed.launch.messages import Message
from railbed.model import events
from railbed.model.cluster import Cluster, Node, Port, Rail, Training
from railbed.model.record import Record
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from tests.support.disks import small_disk
from tests.support.ranks import wait_for

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("train")]
SECONDS = 120.0
NAMES = ("a", "b", "c")
COUNT = 5
"""Pieces of the parcel."""


@dataclass
class Gate:
    """Holds back pieces of this machine from some number on, until it is opened."""

    at: int = COUNT
    read: list[int] = field(default_factory=list)
    opened: threading.Event = field(default_factory=threading.Event)

    def hold(self, files: Parcel, monkeypatch: pytest.MonkeyPatch) -> None:
        really_read = Parcel.read_piece

        def read_piece(own: Parcel, index: int) -> bytes:
            if index >= self.at:
                assert self.opened.wait(SECONDS)
            self.read.append(index)
            return really_read(own, index)

        assert files.pieces is not None
        monkeypatch.setattr(Parcel, "read_piece", read_piece)


@dataclass
class Site:
    """Nodes on this machine."""

    folder: Path
    files: Parcel
    homes: dict[str, Path]
    records: list[Record] = field(default_factory=list)
    failed: dict[str, DeviceError] = field(default_factory=dict)

    @property
    def cluster(self) -> Cluster:
        nodes = {}
        for number, (name, home) in enumerate(self.homes.items(), start=1):
            python = self.folder / f"python-{name}"
            python.write_text(f'#!/bin/sh\nRELAY_NODE={name} HOME={home} exec {sys.executable} "$@"\n')
            python.chmod(0o755)
            slow = Port(netdev="lo", rail="slow", address=ip_address(f"127.9.0.{number}"))
            fast = Port(netdev="lo", rail="fast", address=ip_address(f"127.9.1.{number}"))
            nodes[name] = Node(host="local", python=str(python), ports=(slow, fast))
        rails = {
            "slow": Rail(subnet=ip_network("127.9.0.0/24"), speed=1.0),
            "fast": Rail(subnet=ip_network("127.9.1.0/24"), speed=40.0),
        }
        return Cluster(name="here", nodes=nodes, rails=rails, training=Training(workdir="~"))

    def place(self, node: str) -> Path:
        return self.homes[node] / BASE / self.files.name

    def partial(self, node: str) -> Path:
        return self.homes[node] / BASE / "partial" / self.files.name.replace("/", "-")

    def content(self, node: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.place(node).iterdir()}

    def distribute(self, during: Callable[[Record], None] = lambda _: None) -> list[events.FilesCopied]:
        """Distribute the parcel; return what was copied."""
        cluster = self.cluster

        async def run() -> None:
            async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=20.0) as fleet:
                distribution = Distribution(fleet, cluster, self.files, cluster.nodes)
                async with aclosing(distribution.run()) as records:
                    async for record in records:
                        self.records.append(record)
                        during(record)
                self.failed = distribution.failed

        self.records.clear()
        asyncio.run(asyncio.wait_for(run(), SECONDS))
        return [record for record in self.records if isinstance(record, events.FilesCopied)]

    def notices(self) -> list[str]:
        return [record.message for record in self.records if isinstance(record, events.Notice)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Parcel:
    """A parcel of several files, of which one is empty."""
    model = tmp_path_factory.mktemp("model")
    chance = random.Random(5)  # noqa: S311
    (model / "weights").write_bytes(chance.randbytes((COUNT - 1) * PIECE_BYTES - 1000))
    (model / "config").write_bytes(b"{}")
    (model / "empty").touch()
    (model / "words").write_bytes(chance.randbytes(70_000))
    files = parcel("models", {path.name: path for path in model.iterdir()})
    assert files.pieces
    assert files.pieces.count == COUNT
    return files


@pytest.fixture
def site(tmp_path: Path, files: Parcel) -> Site:
    homes = {name: tmp_path / "homes" / name for name in NAMES}
    for home in homes.values():
        home.mkdir(parents=True, mode=0o700)
    (tmp_path / "homes").chmod(0o700)
    return Site(tmp_path, files, homes)


def sent(files: Parcel) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in files.files.items() if isinstance(path, Path)}


def relay_of(node: str) -> int:
    """Return the process of a node's relay."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            if f"RELAY_NODE={node}".encode() in variables and b"-I\0-B" in (process / "cmdline").read_bytes():
                return int(process.name)
    raise AssertionError(f"no relay of {node} is running")


def test_a_parcel_comes_once_from_here_and_then_from_node_to_node(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    gate.hold(site.files, monkeypatch)
    copied = site.distribute()
    assert site.failed == {}
    assert gate.read == list(range(COUNT)), "each piece left this machine once"
    assert sorted((event.source or "", event.rail or "") for event in copied) == [
        ("", ""),
        ("a", "fast"),
        ("b", "fast"),
    ]
    for name in NAMES:
        assert site.content(name) == sent(site.files)
        assert {path.stat().st_mode & 0o777 for path in site.place(name).iterdir()} == {0o600}
        assert not site.partial(name).exists()
    assert site.distribute() == [], "it is there already"


def test_nothing_comes_from_here_if_a_node_has_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = site.homes
    site.homes = {"a": everyone["a"]}
    site.distribute()
    site.homes = everyone
    gate = Gate()
    gate.hold(site.files, monkeypatch)
    sources = {event.subject: event.source for event in site.distribute()}
    assert sources in ({"b": "a", "c": "b"}, {"c": "a", "b": "c"})
    assert gate.read == []
    assert site.content("b") == site.content("c") == sent(site.files)


def leave_partial(site: Site, content: Mapping[str, bytes]) -> None:
    """Leave what a copy that was killed has left on a node."""
    partial = site.partial("a")
    partial.mkdir(parents=True, mode=0o700)
    for folder in (partial.parent, partial.parent.parent):
        folder.chmod(0o700)
    for name, data in content.items():
        (partial / name).write_bytes(data)
        (partial / name).chmod(0o600)


def test_a_copy_that_was_killed_before_it_got_its_name_gets_it(site: Site) -> None:
    leave_partial(site, sent(site.files))
    copied = {event.subject: event for event in site.distribute()}
    assert (copied["a"].bytes, copied["a"].continued) == (0, sum(map(len, sent(site.files).values())))
    for name in NAMES:
        assert site.content(name) == sent(site.files)
        assert not site.partial(name).exists()


def test_a_copy_is_continued_from_its_last_intact_piece(site: Site) -> None:
    """Two pieces are intact, the third is damaged, and a file lies there that does not belong to the parcel."""
    site.homes = {"a": site.homes["a"]}
    content = sent(site.files)
    damaged = content["weights"][: 3 * PIECE_BYTES - 100] + bytes(100)
    leave_partial(site, {**content, "weights": damaged, "other": b"1"})
    (copied,) = site.distribute()
    assert (copied.continued, copied.source) == (2 * PIECE_BYTES, None)
    assert site.content("a") == sent(site.files)
    assert "after 8.39 MB in an earlier copy" in copied.message


def test_nodes_that_share_a_disk_get_one_copy(site: Site) -> None:
    site.homes["c"] = site.homes["b"]
    copied = site.distribute()
    assert site.failed == {}
    assert len(copied) == 2
    assert site.content("b") == sent(site.files)


@pytest.mark.parametrize("killed", ["a", "b"])
def test_a_killed_relay_is_started_again_and_others_find_another_source(
    site: Site, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """`a` gets the pieces from here, `b` from `a`, `c` from `b`."""
    gate = Gate(at=3)
    gate.hold(site.files, monkeypatch)

    def kill_once(record: Record) -> None:
        if isinstance(record, events.Progress) and not gate.opened.is_set() and "12.6 MB" in (record.detail or ""):
            os.kill(relay_of(killed), signal.SIGKILL)
            gate.opened.set()

    copied = {event.subject: event for event in site.distribute(kill_once)}
    assert site.failed == {}
    assert copied[killed].continued == 3 * PIECE_BYTES
    assert any(notice.endswith("; the copy will be continued") for notice in site.notices())
    behind = "b" if killed == "a" else "c"
    assert any(f"{killed} stopped passing files on to {behind}: " in notice for notice in site.notices())
    assert [site.content(name) for name in NAMES] == [sent(site.files)] * 3


def test_a_relay_killed_before_it_admits_a_node_leaves_nobody_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_send, killed = Participant.send, list[str]()

    def send(source: Participant, message: Message) -> None:
        if message["do"] == "admit" and not killed:
            killed.append(source.name)
            os.kill(relay_of(source.name), signal.SIGKILL)
        else:
            really_send(source, message)

    monkeypatch.setattr(Participant, "send", send)
    site.distribute()
    assert killed
    assert site.failed == {}
    assert [site.content(name) for name in NAMES] == [sent(site.files)] * 3


def listening(node: int) -> list[tuple[str, int]]:
    """Return where a node listens."""
    with Path("/proc/net/tcp").open() as table:
        rows = [line.split() for line in list(table)[1:]]
    local = [row[1].split(":") for row in rows if row[3] == "0A"]
    places = [(socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)) for address, port in local]
    return [place for place in places if place[0] in {f"127.9.0.{node}", f"127.9.1.{node}"}]


def test_a_stranger_gets_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(at=2)
    gate.hold(site.files, monkeypatch)
    received: list[bytes] = []

    def intrude(record: Record) -> None:
        if isinstance(record, events.Progress) and not gate.opened.is_set() and "8.39 MB" in (record.detail or ""):
            places = listening(1)
            assert len(places) == 2
            for place in places:
                with socket.create_connection(place, timeout=SECONDS) as stranger:
                    random_bytes = stranger.recv(RANDOM_BYTES, socket.MSG_WAITALL)
                    assert len(random_bytes) == RANDOM_BYTES
                    stranger.sendall(REQUEST.pack(0, secrets.token_bytes(32)))
                    received.append(stranger.recv(1))
            gate.opened.set()

    assert len(site.distribute(intrude)) == 3
    assert received == [b"", b""]
    intrusions = {record.address for record in site.records if isinstance(record, events.Intrusion)}
    assert intrusions == {"127.0.0.1"}
    assert listening(1) == [], "it listens only while others need it"


def two_nodes(files: Parcel, tmp_path: Path, strangers: list[str]) -> tuple[PieceServer, Callable[[], Copy]]:
    """Return a node that has all pieces of a parcel, and what opens the copy of one that has none."""
    assert files.pieces
    pieces, have, lack = files.pieces, tmp_path / "have", tmp_path / "lack"
    for folder in (have, lack):
        folder.mkdir(mode=0o700)
    for name, data in sent(files).items():
        (have / name).write_bytes(data)
    server = PieceServer(Copy(have, os.open(have, FOLDER), pieces, None), strangers.append)
    return server, lambda: Copy(lack, os.open(lack, FOLDER), pieces, PieceVerifier(pieces))


async def test_idle_connections_do_not_shut_out_a_node_with_a_key(
    files: Parcel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: the oldest of those who hold them are closed, and their address is reported."""
    monkeypatch.setattr(relay, "HANDSHAKE_SECONDS", SECONDS)
    strangers: list[str] = []
    server, missing = two_nodes(files, tmp_path, strangers)
    copy, key = missing(), secrets.token_bytes(32)
    (place,) = await server.admit(key, ["127.0.0.1"])
    idle = [await asyncio.open_connection(*place) for _ in range(MOST_STRANGERS + 20)]
    quiet = await asyncio.open_connection(*place, local_addr=("127.0.0.2", 0))
    for reader, _ in (*idle, quiet):
        with suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.wait_for(reader.readexactly(RANDOM_BYTES), SECONDS)
    assert {*strangers} == {"127.0.0.1"}
    assert not quiet[0].at_eof(), "another address is not closed for it"
    await fetch(copy, [place], key, lambda _: None)
    assert copy.is_complete
    for _, writer in (*idle, quiet):
        writer.close()
    server.close()


async def test_a_key_admits_one_connection(files: Parcel, tmp_path: Path) -> None:
    strangers: list[str] = []
    server, missing = two_nodes(files, tmp_path, strangers)
    key = secrets.token_bytes(32)
    places = await server.admit(key, ["127.0.0.1"])
    copy = missing()
    with pytest.raises(Broken, match="the connection ended"):
        await fetch(copy, places, secrets.token_bytes(32), lambda _: None)
    assert (copy.have, strangers) == (0, ["127.0.0.1"])
    await fetch(copy, places, key, lambda _: None)
    assert (copy.is_complete, len(strangers)) == (True, 1)
    with pytest.raises(Broken, match="the connection ended"):
        await fetch(missing(), places, key, lambda _: None)
    assert len(strangers) == 2
    server.close()


def test_a_node_without_space_is_reported_and_the_others_get_it(site: Site) -> None:
    with small_disk(site.folder / "small", megabytes=10) as disk:
        site.homes["a"] = disk
        copied = site.distribute()
    assert sorted(event.subject for event in copied) == ["b", "c"]
    assert "is full: " in site.failed["a"].message


def test_a_relay_ends_with_its_input_and_leaves_what_it_has(site: Site) -> None:
    """As when railbed is killed: what was received is continued by the next copy."""
    site.homes = {"a": site.homes["a"]}
    assert site.files.pieces
    request = {
        "do": "relay",
        "workdir": str(site.homes["a"]),
        "parcel": site.files.as_message(),
        "pieces": site.files.pieces.as_message(),
        "addresses": [],
    }
    piece = site.files.read_piece(0)
    program = client._program(RELAY)
    start = f"import sys; exec(sys.stdin.buffer.read({len(program)}))"
    with subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(program + json.dumps(request).encode() + b"\n")
        process.stdin.write(json.dumps({"do": "piece", "index": 0, "size": len(piece)}).encode() + b"\n" + piece)
        process.stdin.flush()
        assert any(json.loads(line).get("have") == 1 for line in process.stdout)
        process.stdin.write(b'{"do": "piece", "index": 1, "size": 9}\n1234')
        process.stdin.close()
        assert process.wait(SECONDS) == 1
    (copied,) = site.distribute()
    assert copied.continued == PIECE_BYTES


def test_files_that_change_while_they_are_copied_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parcel, "read_piece", lambda own, index: bytes(own.pieces.length(index)) if own.pieces else b"")
    site.distribute()
    assert {error.message for error in site.failed.values()} == {"the files changed while they were copied"}
    assert not any(site.place(name).exists() for name in NAMES)


def processes_of(names: Sequence[str]) -> list[int]:
    running = []
    for name in names:
        with suppress(AssertionError):
            running.append(relay_of(name))
    return running


def test_leaving_early_ends_every_relay(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(at=1)
    gate.hold(site.files, monkeypatch)

    class Interrupted(Exception):
        pass

    def interrupt(record: Record) -> None:
        if isinstance(record, events.Progress):
            assert len(processes_of(NAMES)) == len(NAMES)
            gate.opened.set()
            raise Interrupted

    with pytest.raises(Interrupted):
        site.distribute(interrupt)
    wait_for(lambda: processes_of(NAMES) == [], SECONDS)
