"""The keys and values that ranks share: with the secret as torch expects, without it nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ports import free_port
from torch._C._distributed_c10d import PrefixStore

from railbed.collective import keyserver
from railbed.collective.channel import MAGIC, Channel, NotAuthentic
from railbed.collective.keys import KeyStore
from railbed.collective.keyserver import KeyServer
from railbed.errors import Interference
from railbed.launch.node.meeting import listen

SECRET = b"s" * 32
HOST = "127.0.0.1"


class Served:
    """A key server, and what it reported."""

    def __init__(self) -> None:
        self.alarms: list[tuple[str, str]] = []
        self._alarmed = threading.Event()
        self._clients: list[KeyStore] = []
        self.server = KeyServer(listen(HOST, 0), SECRET, 2, self._note)

    def _note(self, host: str, sentence: str) -> None:
        self.alarms.append((host, sentence))
        self._alarmed.set()

    def await_alarm(self) -> str:
        assert self._alarmed.wait(30)
        self._alarmed.clear()
        return self.alarms[-1][1]

    def client(self, secret: bytes = SECRET, timeout: float = 20.0) -> KeyStore:
        store = KeyStore(HOST, self.server.port, secret, timeout, self._note)
        store.open()
        self._clients.append(store)
        return store

    def close(self) -> None:
        for store in self._clients:
            store.close()
        self.server.close()

    def plain(self) -> socket.socket:
        return socket.create_connection((HOST, self.server.port), 20)


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


def test_it_is_what_torch_expects_of_a_store(served: Served) -> None:
    """By way of torch's own C++ side, as gloo and NCCL use it."""
    first, second = (cast("Any", PrefixStore("job", served.client())) for _ in range(2))
    first.set("a", "1")
    assert second.get("a") == b"1"
    assert [first.add("n", 2), second.add("n", 3), first.add("n", 0)] == [2, 5, 5]
    assert second.get("n") == b"5"
    assert first.check(["a", "n"])
    assert not first.check(["a", "never"])
    assert first.compare_set("a", "0", "2") == b"1"
    assert first.compare_set("a", "1", "2") == b"2"
    assert first.compare_set("new", "", "3") == b"3"
    assert first.compare_set("other", "x", "3") == b"x"
    first.append("a", "3")
    first.multi_set(["x", "y"], [b"\x00\xff", "é".encode()])
    assert second.multi_get(["a", "x", "y"]) == [b"23", b"\x00\xff", "é".encode()]
    assert second.delete_key("a")
    assert not second.delete_key("a")
    assert second.num_keys() == 4
    with pytest.raises(RuntimeError, match="timed out"):
        second.wait(["never"], timedelta(milliseconds=50))
    assert served.alarms == []


def test_a_value_is_waited_for_while_others_use_the_same_store(served: Served) -> None:
    store, got = served.client(), []
    waiting = threading.Thread(target=lambda: got.append(store.get("late")))
    waiting.start()
    for number in range(20):
        store.set(f"k{number}", b"v" * 100_000)
    store.set("late", "here")
    waiting.join(20)
    assert got == [b"here"]


def test_it_listens_at_its_own_address_only(served: Served) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.server.port), 5)


def test_who_does_not_know_the_secret_is_turned_away_and_reported(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railbed.collective.keys.IMPOSTOR_SECONDS", 0.1)
    store = served.client()
    with pytest.raises(Interference, match=r"a stranger answers as rank 0 at 127\.0\.0\.1"):
        served.client(b"x" * 32)
    with served.plain() as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert stranger.recv(1) == b""
    assert "was rejected: it does not use the protocol of a run" in served.await_alarm()
    with served.plain() as stranger:
        stranger.sendall(MAGIC + b"r" * 32)
        assert len(stranger.recv(64, socket.MSG_WAITALL)) == 64
        stranger.sendall(b"p" * 32)
        assert stranger.recv(1) == b""
    assert ("127.0.0.1" in served.alarms[-1][0], "does not have the secret" in served.alarms[-1][1]) == (True, True)
    store.set("a", "1")
    assert store.get("a") == b"1"


def test_torchs_own_client_can_do_nothing(served: Served, tmp_path: Path) -> None:
    store = served.client()
    store.set("a", "1")
    command = [sys.executable, "-m", "tests.support.intruder", HOST, str(served.server.port), str(tmp_path / "enough")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as intruder:
        assert "was rejected" in served.await_alarm()
        (tmp_path / "enough").touch()
        output, _ = intruder.communicate(timeout=60)
    assert b'"connected": 0, "listed": 0, "read": 0, "written": 0, "deleted": 0' in output
    assert store.get("a") == b"1"


def test_who_only_looks_whether_somebody_listens_is_not_an_intruder(served: Served) -> None:
    for sent in (b"", MAGIC[:5], MAGIC + b"r" * 32):
        with served.plain() as stranger:
            stranger.sendall(sent)
    store = served.client()
    store.set("a", "1")
    assert served.alarms == []


def test_connections_that_are_held_open_do_not_keep_ranks_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyserver, "NEWCOMERS", 4)
    idle = [served.plain() for _ in range(30)]
    store = served.client()
    store.set("a", "1")
    for stranger in idle:
        stranger.close()


def test_a_flood_of_strangers_is_reported_a_few_times(served: Served) -> None:
    for _ in range(100):
        with served.plain() as stranger:
            stranger.sendall(b"x")
            assert stranger.recv(1) == b""
    assert keyserver.ALARMS <= len(served.alarms) <= keyserver.ALARMS + 2
    assert served.client().check(["a"]) is False


def test_what_is_altered_on_the_way_is_noticed(served: Served) -> None:
    """In both directions; a replayed frame is rejected as well."""
    with served.plain() as connection:
        channel = Channel.connect(connection, SECRET)
        channel.send([b"set", b"a", b"1"])
        assert channel.receive() == [b"ok"]
        channel._sent -= 1  # as a replay would
        channel.send([b"set", b"a", b"2"])
        with pytest.raises(EOFError):
            channel.receive()
    assert "altered on the way" in served.await_alarm()
    assert served.client().get("a") == b"1"


def test_an_answer_that_is_altered_ends_the_rank_and_not_the_node() -> None:
    listener = socket.create_server((HOST, free_port()))
    alarms: list[Any] = []

    def lie() -> None:
        connection, _ = listener.accept()
        with connection:
            channel = Channel.accept(connection, SECRET, 20)
            channel.receive()
            channel._sends = b"another key"
            channel.send([b"ok", b"poison"])

    liar = threading.Thread(target=lie)
    liar.start()
    store = KeyStore(HOST, listener.getsockname()[1], SECRET, 20.0, lambda *alarm: alarms.append(alarm))
    store.open()
    with pytest.raises(Interference, match="altered on the way") as raised:
        PrefixStore("job", store).get("a")  # through torch, as an engine asks
    assert raised.value.peer
    assert len(alarms) == 1
    store.close()
    liar.join(20)
    listener.close()


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=300), max_size=6), st.binary(min_size=32, max_size=32))
def test_messages_arrive_as_they_were_sent(parts: list[bytes], secret: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        served: list[Channel] = []
        thread = threading.Thread(target=lambda: served.append(Channel.accept(theirs, secret, 20)))
        thread.start()
        client = Channel.connect(ours, secret)
        thread.join(20)
        client.send(parts)
        assert served[0].receive() == parts
        served[0].send(parts)
        assert client.receive() == parts


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_nonsense_is_never_taken_for_a_message(nonsense: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiver = Channel(theirs, b"a" * 32, b"b" * 32)
        ours.sendall(nonsense)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises((NotAuthentic, EOFError)):
            receiver.receive()
