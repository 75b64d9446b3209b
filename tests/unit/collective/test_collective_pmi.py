"""What an MPI library asks its launcher, and the answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch._C._distributed_c10d import HashStore, Store

from railbed.collective.pmi import Responder, World, mapping


class Asker:
    """One process of an MPI world, with MPICH's side of the protocol."""

    def __init__(self, store: Store, rank: int, machines: tuple[int, ...], name: str = "mpi") -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(20)
        world = World(store=store, name=name, rank=rank, machines=machines, seconds=10)
        self.thread = threading.Thread(target=Responder(world, theirs).serve, daemon=True)
        self.thread.start()
        self._lines = self.socket.makefile("rb")

    def ask(self, line: str) -> dict[str, str]:
        self.socket.sendall(line.encode() + b"\n")
        return self.read()

    def read(self) -> dict[str, str]:
        return dict(word.partition("=")[::2] for word in self._lines.readline().decode().split())

    def close(self) -> None:
        self._lines.close()
        self.socket.close()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def two() -> Iterator[tuple[Asker, Asker]]:
    store = HashStore()
    askers = Asker(store, 0, (0, 1)), Asker(store, 1, (0, 1))
    yield askers
    for asker in askers:
        asker.close()


def test_a_world_comes_together(two: tuple[Asker, Asker]) -> None:
    first, second = two
    for rank, asker in enumerate(two):
        assert asker.ask("cmd=init pmi_version=1 pmi_subversion=1")["cmd"] == "response_to_init"
        assert int(asker.ask("cmd=get_maxes")["vallen_max"]) >= 1024
        assert asker.ask("cmd=get_universe_size")["size"] == "2"
        assert asker.ask("cmd=get_appnum")["appnum"] == "0"
        assert asker.ask("cmd=get_my_kvsname")["kvsname"] == "mpi"
        assert asker.ask(f"cmd=put kvsname=railbed key=card-{rank} value=address=of-{rank}")["rc"] == "0"
    first.socket.sendall(b"cmd=barrier_in\n")
    assert second.ask("cmd=barrier_in")["cmd"] == first.read()["cmd"] == "barrier_out"
    assert first.ask("cmd=get kvsname=railbed key=card-1")["value"] == "address=of-1"
    assert second.ask("cmd=get kvsname=railbed key=PMI_process_mapping")["value"] == "(vector,(0,1,1),(1,1,1))"
    assert second.ask("cmd=get kvsname=railbed key=unknown")["rc"] == "-1"
    assert first.ask("cmd=finalize")["cmd"] == "finalize_ack"


def test_a_barrier_waits_for_all(two: tuple[Asker, Asker]) -> None:
    first, second = two
    for _ in range(3):
        first.socket.sendall(b"cmd=barrier_in\n")
        first.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            first.socket.recv(1, socket.MSG_PEEK)
        first.socket.settimeout(20)
        second.ask("cmd=barrier_in")
        assert first.read()["cmd"] == "barrier_out"


def test_worlds_of_one_store_do_not_see_each_other() -> None:
    store = HashStore()
    trial, real = Asker(store, 0, (0,), "trial"), Asker(store, 0, (0,), "mpi")
    trial.ask("cmd=put kvsname=railbed key=card value=old")
    assert real.ask("cmd=get kvsname=railbed key=card")["rc"] == "-1"
    trial.close()
    real.close()


@pytest.mark.parametrize(
    ("machines", "text"),
    [
        ((0, 0), "(vector,(0,1,2))"),
        ((0, 0, 2), "(vector,(0,1,2),(1,1,1))"),
        ((0, 1, 2, 2), "(vector,(0,1,1),(1,1,1),(2,1,2))"),
    ],
)
def test_machines_as_mpich_reads_them(machines: tuple[int, ...], text: str) -> None:
    assert mapping(machines) == text


@given(st.binary(max_size=200))
def test_nonsense_ends_the_conversation_and_nothing_else(data: bytes) -> None:
    asker = Asker(HashStore(), 0, (0,))
    asker.socket.sendall(data + b"\n")
    asker.socket.shutdown(socket.SHUT_WR)
    asker.close()
