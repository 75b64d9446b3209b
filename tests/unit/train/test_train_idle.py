"""Idle times, from the messages of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.train.progress.steps import IdleTimes


def progress(step: int, exposed: object) -> dict[str, object]:
    return {"kind": "progress", "step": step, "allreduce_exposed_seconds": exposed, "time": 100.0 + step}


def test_the_slowest_rank_waits_for_nobody() -> None:
    idle = IdleTimes(3)
    assert idle.receive("a", 0, progress(7, 0.50)) == []
    assert idle.receive("b", 1, progress(7, 0.125)) == []
    records = idle.receive("b", 2, progress(7, 0.25))
    assert {record.labels["rank"]: record.value for record in records} == {0: 0.375, 1: 0.0, 2: 0.125}
    assert [
        (record.name, record.unit, record.labels["node"], record.labels["step"], record.time) for record in records
    ] == [("idle_seconds", "s", node, 7, 107.0) for node in "abb"]


def test_a_rank_that_is_ahead_does_not_mix_steps() -> None:
    idle = IdleTimes(2)
    assert idle.receive("a", 0, progress(1, 0.3)) == []
    assert idle.receive("a", 0, progress(2, 0.1)) == []
    assert [record.value for record in idle.receive("b", 1, progress(1, 0.1))] == pytest.approx([0.2, 0.0])
    assert [record.value for record in idle.receive("b", 1, progress(2, 0.4))] == pytest.approx([0.0, 0.3])


@pytest.mark.parametrize(
    "message", [{"kind": "alive", "step": 1}, {"kind": "progress", "step": 1}, progress(1, None), progress(1, "long")]
)
def test_what_tells_no_time_is_passed_over(message: dict[str, object]) -> None:
    assert IdleTimes(1).receive("a", 0, message) == []


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=8), st.randoms())
def test_in_whatever_order_ranks_tell(exposed: list[float], chance: st.DataObject) -> None:
    idle, ranks = IdleTimes(len(exposed)), list(range(len(exposed)))
    chance.shuffle(ranks)  # type: ignore[attr-defined]
    *early, last = [idle.receive("a", rank, progress(1, exposed[rank])) for rank in ranks]
    assert not any(early)
    assert [message.value for message in last] == [value - min(exposed) for value in exposed]
