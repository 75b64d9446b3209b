"""Ranks in one MPI world without mpiexec: here over shared memory, in labs over a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked import fork_server
from tests.support.ports import free_port
from tests.support.ranks import Starter, losses, wait_for
from tests.support.smallmodel import recipe, write_tokens

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("ranks")]
EXCHANGE = "tests.support.exchange_rank"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokens(tmp_path_factory.mktemp("data") / "tokens")


@pytest.fixture
def starter(tmp_path: Path, tokens: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path, tokens)
    yield starter
    starter.close()


@pytest.fixture(scope="module")
def over_gloo(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> list[float]:
    starter = Starter(tmp_path_factory.mktemp("gloo"), tokens)
    ranks = starter.run(2, recipe(evaluation={"every": 10}), checkpoints="", transport="gloo")
    starter.close()
    return losses(ranks[0])


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.soak)])
def test_the_same_bits_as_over_gloo(starter: Starter, over_gloo: list[float], ranks: int) -> None:
    settings = recipe(evaluation={"every": 10})
    started = starter.run(ranks, settings, checkpoints="", transport="mpi", machines=(0,) * ranks)
    for rank in started:
        assert losses(rank) == (over_gloo if ranks == 2 else pytest.approx(over_gloo, rel=1e-5))
    (message,) = started[0].messages_of("transport")
    assert message["engine"] == "mpi"
    assert message["reason"].startswith("mpi within one machine: ")
    assert "as requested" in message["reason"]
    assert all(timing["seconds"] > 0 for timing in message["timings"]["mpi"])


def shared_memory() -> set[Path]:
    return set(Path("/dev/shm").glob("mpich_shm_*"))


def test_sums_of_every_type_and_exchanges(tmp_path: Path) -> None:
    port, before = str(free_port()), shared_memory()
    with (tmp_path / "output").open("w+") as output:
        ranks = [fork_server().fork(EXCHANGE, [rank, port], output.fileno(), output.fileno()) for rank in ("0", "1")]
        assert [rank.wait(120) for rank in ranks] == [0, 0], Path(output.name).read_text()
    wait_for(lambda: shared_memory() <= before)


def test_a_killed_rank_blocks_the_other_until_it_is_ended(starter: Starter) -> None:
    before = shared_memory()
    first, second = starter.start(2, recipe(steps=100_000), checkpoints="", transport="mpi", machines=(0, 0))
    first.read(until=lambda message: message["kind"] == "progress")
    second.kill()
    first.read(until=lambda message: message["kind"] == "alive" and message["step"] > 0)
    assert not first.messages_of("done")
    first.kill()
    wait_for(lambda: shared_memory() <= before)


def test_without_rdma_auto_takes_gloo_and_says_why(starter: Starter) -> None:
    reason = "no RDMA device rxe0 port 1 on the node"
    ranks = starter.run(2, recipe(steps=2), checkpoints="", node="node7", no_rdma=reason)
    (message,) = ranks[0].messages_of("transport")
    assert (message["engine"], message["falls_back"]) == ("gloo", True)
    assert "gloo over TCP (lo): " in message["reason"]
    assert f"because node7: {reason}" in message["reason"]


def refused(starter: Starter, **fields: Any) -> str:
    ranks = starter.start(2, recipe(steps=2), checkpoints="", **fields)
    for rank in ranks:
        rank.read()
        assert rank.process.wait(60) == 1
    (error,) = ranks[1].messages_of("error")
    assert error["refused"]
    assert not error["peer"]
    return str(error["sentence"])


def test_mpi_is_refused_where_its_device_is_gone(starter: Starter) -> None:
    sentence = refused(starter, transport="mpi", node="node7", environment={"UCX_NET_DEVICES": "rxe9:1"})
    assert sentence == "mpi was requested and does not work here: node7: there is no RDMA device rxe9:1"


def test_mpi_that_crashes_costs_no_rank(starter: Starter) -> None:
    """UCX is configured to use a transport that it does not have: it ends its process."""
    broken = {"UCX_NET_DEVICES": "", "UCX_TLS": "rc_v", "MPIR_CVAR_CH4_NETMOD": "nonsense"}
    sentence = refused(starter, transport="mpi", node="node7", environment=broken)
    assert sentence.startswith("mpi was requested and does not work here: node7: ")


def test_nccl_is_refused_on_a_processor(starter: Starter) -> None:
    sentence = refused(starter, transport="nccl", node="node7")
    assert sentence.endswith("node7: its rank computes on the processor, and nccl is for GPUs")
