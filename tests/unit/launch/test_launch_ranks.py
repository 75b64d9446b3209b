"""Which ranks count as failed: silent ones, and those that should take a step and do not; and which do not."""

from __future__ import annotations

import pytest

from railbed.launch.generation import RANK_SECONDS, STALL_SECONDS, RankWatch
from railbed.launch.placement import Placement
from railbed.launch.roster import SETTLE_SECONDS, Roster


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("railbed.launch.generation.time", clock)
    return clock


def live(watch: RankWatch, clock: Clock, seconds: float, *ranks: int, stepping: bool = True) -> None:
    """Send the heartbeat of each rank every second."""
    for _ in range(int(seconds)):
        clock.now += 1
        for rank in ranks:
            watch.note(rank, {"kind": "alive", "step": 0, "stepping": stepping})


def step(watch: RankWatch, clock: Clock, *steps: int) -> None:
    for number in steps:
        clock.now += 0.1
        for rank in (0, 1):
            watch.note(rank, {"kind": "progress", "step": number})


def test_a_silent_rank_is_noticed(clock: Clock) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    step(watch, clock, 1, 2)
    live(watch, clock, RANK_SECONDS + 1, 0)
    assert watch.stall() == ("node2", f"rank 1 was silent for {RANK_SECONDS:g} s")


def test_ranks_that_make_no_step_are_noticed(clock: Clock) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    live(watch, clock, 1, 0, 1)
    step(watch, clock, 1, 2)
    live(watch, clock, STALL_SECONDS - 0.5, 0, 1)
    assert watch.stall() is None
    live(watch, clock, 1, 0, 1)
    assert watch.stall() == ("", f"no step for {STALL_SECONDS} s")


def test_of_ranks_that_make_no_step_the_silent_one_is_the_cause(clock: Clock) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    live(watch, clock, 1, 0, 1)
    step(watch, clock, 1, 2)
    live(watch, clock, 4, 0)
    clock.now += 0.6
    assert watch.stall() == ("node2", f"no step for {STALL_SECONDS} s; rank 1 was silent for 4.6 s")


@pytest.mark.parametrize("first", [(), (41,)])
def test_loading_and_the_first_step_may_take_long(clock: Clock, first: tuple[int, ...]) -> None:
    """A generation that continues after step 40 reports that while it loads and compiles: that is not a step yet."""
    watch = RankWatch({0: "node1", 1: "node2"})
    live(watch, clock, 1, 0, 1, stepping=False)
    step(watch, clock, *first)
    live(watch, clock, 60, 0, 1)
    assert watch.stall() is None
    assert not watch.is_under_way


def test_evaluating_and_finishing_may_take_long(clock: Clock) -> None:
    watch = RankWatch({0: "node1", 1: "node2"})
    live(watch, clock, 1, 0, 1)
    step(watch, clock, 1, 2)
    live(watch, clock, 60, 0, 1, stepping=False)
    assert watch.stall() is None
    live(watch, clock, STALL_SECONDS, 0, 1)
    assert watch.stall() is None
    live(watch, clock, 2, 0, 1)
    assert watch.stall() is not None


def roster(*names: str) -> Roster:
    nodes = Roster([Placement(node=name, address="10.0.0.1") for name in names])
    for name in names:
        nodes.mark_up(name)
        nodes.mark_ready(name, 1234, returned=False)
    return nodes


def usable(nodes: Roster) -> list[str]:
    return [placement.node for placement in nodes.usable]


def test_a_node_takes_part_once_its_agent_listens() -> None:
    nodes = roster("a", "b")
    nodes.mark_up("b")
    assert (usable(nodes), nodes.up) == (["a"], ["a", "b"])


def test_a_node_that_returned_is_taken_back_once_it_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("railbed.launch.roster.time", clock)
    nodes = roster("a", "b")
    nodes.mark_lost("b")
    nodes.mark_ready("b", 1234, returned=True)
    assert nodes.list_returned() == []
    clock.now += SETTLE_SECONDS + 0.1
    assert nodes.list_returned() == ["b"]
    nodes.take_in(nodes.usable)
    assert nodes.list_returned() == []


def test_a_node_that_is_reached_again_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("railbed.launch.roster.time", clock)
    nodes = roster("a", "b", "c")
    nodes.judge_reachability({"a": {"c": "no answer"}, "b": {"c": "no answer"}, "c": {}})
    assert usable(nodes) == ["a", "b"]
    nodes.mark_reached("c")
    clock.now += SETTLE_SECONDS + 0.1
    assert (usable(nodes), nodes.list_returned()) == (["a", "b", "c"], ["c"])


def test_a_node_that_fails_three_times_in_a_row_is_excluded_and_useful_work_between_counts() -> None:
    nodes = roster("a", "b")
    for _ in range(2):
        nodes.blame("a", "rank 0 ended with 1")
    nodes.forgive(["a"])
    for _ in range(3):
        assert not nodes.excluded
        nodes.blame("a", "rank 0 ended with 1")
    assert nodes.excluded == {"a": "failed 3 times in a row, most recently: rank 0 ended with 1"}
    assert usable(nodes) == ["b"]


def test_the_larger_side_of_a_cut_goes_on() -> None:
    nodes = roster("a", "b", "c", "d")
    alone = {"b": "no answer", "c": "no answer", "d": "no answer"}
    nodes.judge_reachability({"a": alone, **{name: {"a": "no answer"} for name in "bcd"}})
    assert nodes.cut == {"a": "b does not reach it over the rail: no answer"}
    assert usable(nodes) == ["b", "c", "d"]
