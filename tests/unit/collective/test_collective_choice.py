"""Which engine is chosen, from the ranks' reports and a test; and the rules of that test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.collective.choose import Reply, candidates, decide
from railbed.collective.mpitest import complaint
from railbed.collective.timing import Timing, measure, sizes_of
from railbed.errors import RankFailed

NODES = [
    Reply(rank=rank, node=f"node{rank + 1}", machine=rank, device="cpu", interface="rail0", mark="0", rdma="rxe0:1")
    for rank in range(2)
]
GPUS = [replace(node, device="cuda:0") for node in NODES]


def timings(seconds: float, size: int = 1 << 20) -> list[Timing]:
    return [Timing(size=size // 4, seconds=seconds / 3, repeats=5), Timing(size=size, seconds=seconds, repeats=5)]


def changed(answers: list[Reply], at: int, **fields: Any) -> list[Reply]:
    return [replace(finding, **fields) if finding.rank == at else finding for finding in answers]


@pytest.mark.parametrize(
    ("answers", "engines", "why"),
    [
        (NODES, ["mpi", "gloo"], ""),
        (GPUS, ["nccl", "gloo"], ""),
        (changed(NODES, 1, rdma="", no_rdma="rxe0 is gone"), ["gloo"], "node2: rxe0 is gone"),
        (changed(NODES, 0, lacks={"mpi": "no mpi4py"}), ["gloo"], "node1: no mpi4py"),
        (changed(GPUS, 1, device="cpu", lacks={"nccl": "no GPU"}), ["mpi", "gloo"], ""),
        ([replace(node, machine=0) for node in NODES], ["gloo"], "all ranks are on one machine"),
        (changed(GPUS, 1, machine=0), ["gloo"], "node2: two ranks share cuda:0, and nccl needs a GPU for each"),
    ],
)
def test_auto_tries_the_best_that_all_ranks_have(answers: list[Reply], engines: list[str], why: str) -> None:
    assert candidates("auto", answers) == (engines, why)


def test_what_is_asked_for_is_refused_and_never_replaced() -> None:
    with pytest.raises(RankFailed, match=r"mpi was requested and does not work here: node2: no mpi4py") as refused:
        candidates("mpi", changed(NODES, 1, lacks={"mpi": "no mpi4py"}))
    assert refused.value.refused
    with pytest.raises(RankFailed, match="there is no transport smoke; choose from nccl, mpi, gloo and auto"):
        candidates("smoke", NODES)
    assert candidates("mpi", [replace(node, rdma="", no_rdma="none") for node in NODES]) == (["mpi"], "")


def test_the_faster_is_taken_and_the_other_reported() -> None:
    fast = decide("auto", NODES, {"mpi": timings(0.002), "gloo": timings(0.005)}, "")
    assert (fast.engine, fast.falls_back) == ("mpi", False)
    assert fast.reason.startswith("mpi over RDMA (rxe0:1): 1.05 MB in 2.00 ms, 524 MB/s; gloo over TCP (rail0) works")
    slow = decide("auto", NODES, {"mpi": timings(0.5), "gloo": timings(0.1)}, "")
    assert (slow.engine, slow.falls_back) == ("gloo", True)
    assert "mpi over RDMA (rxe0:1) works and takes 500 ms, compared with gloo's 100 ms" in slow.reason


def test_mpi_without_rdma_is_tcp_and_says_so() -> None:
    without = [replace(node, rdma="", no_rdma="none") for node in NODES]
    choice = decide("mpi", without, {"mpi": timings(0.1)}, "")
    assert (choice.engine, choice.falls_back) == ("mpi", False)
    assert choice.reason.startswith("mpi over TCP (rail0): ")
    assert "as requested" in choice.reason


def test_a_reason_is_reported_for_what_was_left_out() -> None:
    choice = decide("auto", NODES, {"gloo": timings(0.1)}, "mpi does not work: node1: no device")
    assert choice.reason.endswith("; because mpi does not work: node1: no device")
    assert choice.falls_back
    same = [replace(node, machine=0) for node in NODES]
    assert decide("auto", same, {"gloo": timings(0.1)}, "none").falls_back is False
    assert decide("gloo", NODES, {"gloo": timings(0.1)}, "").falls_back is False


@given(gradients=st.integers(1, 10**10), bucket=st.sampled_from([1 << 20, 25 << 20]))
def test_sizes_are_those_of_buckets(gradients: int, bucket: int) -> None:
    sizes = sizes_of(gradients, bucket)
    assert sizes == sorted(sizes)
    assert 1 <= len(sizes) <= 3
    assert all(size % 4 == 0 and 4 <= size <= max(bucket, 1 << 20) for size in sizes)


def clocked(monkeypatch: pytest.MonkeyPatch, rate: float) -> tuple[Callable[[int], None], list[int]]:
    now, reduced = [0.0], []

    def reduce(size: int) -> None:
        reduced.append(size)
        now[0] += size / rate

    monkeypatch.setattr("railbed.collective.timing.time.perf_counter", lambda: now[0])
    return reduce, reduced


@pytest.mark.parametrize(("rate", "expected"), [(1e9, [10**6, 10**7]), (1e7, [10**6]), (1e5, [10**6])])
def test_a_trial_stays_in_its_time(monkeypatch: pytest.MonkeyPatch, rate: float, expected: list[int]) -> None:
    """One that is slower than its time is measured once all the same, with the smallest size."""
    reduce, _ = clocked(monkeypatch, rate)
    measured = measure(reduce, bool, [10**6, 10**7], 1.0)
    assert [timing.size for timing in measured] == expected
    assert all(timing.seconds == pytest.approx(timing.size / rate) for timing in measured)


def test_every_rank_does_what_rank_0_says(monkeypatch: pytest.MonkeyPatch) -> None:
    reduce, leading = clocked(monkeypatch, 1e8)
    decisions: list[bool] = []

    def decide(going_on: bool) -> bool:
        decisions.append(going_on)
        return going_on

    measure(reduce, decide, [10**6, 10**7], 1.0)
    follow, following = clocked(monkeypatch, 1e3)  # its own clock would tell it to stop at once
    heard = iter(decisions)
    measure(follow, lambda _: next(heard), [10**6, 10**7], 1.0)
    assert following == leading


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", ""),
        ("one\n\n  two \n", "two"),
        (
            "noise\n[1794731590.5] [vm:6865 :0]  select.c:657  UCX  ERROR   no active messages transport\nx",
            "UCX ERROR no active messages transport",
        ),
    ],
)
def test_the_last_line_of_a_crash(output: str, message: str) -> None:
    assert complaint(output) == message
