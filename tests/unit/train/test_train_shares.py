"""Dividing by speed: the split that finishes first, equal on ranks that receive it at different times; its wording."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railbed.launch.placement import Placement
from railbed.model import events
from railbed.train.progress.records import records_of
from railbed.train.ranks import names_of, shares_of
from railbed.train.shares import FIRST_REVIEW, SETTLING, Balance, Split, cost_words, costly, split_words

PACE = st.floats(1e-6, 1e3)


@given(st.integers(1, 9), st.lists(PACE, min_size=1, max_size=4))
def test_no_split_is_over_earlier(sequences: int, paces: list[float]) -> None:
    split = Split.by_pace(sequences, paces)
    assert sum(split.counts) == sequences
    least = 1 if sequences >= len(paces) else 0
    assert min(split.counts) >= least
    for counts in product(range(least, sequences + 1), repeat=len(paces)):
        if sum(counts) == sequences:
            assert split.seconds(paces) <= Split(counts, split.paces).seconds(paces) * (1 + 1e-9)


@settings(max_examples=40)
@given(st.lists(st.lists(PACE, min_size=3, max_size=3), min_size=20, max_size=60))
def test_ranks_that_hear_later_have_the_same_split(heard: list[list[float]]) -> None:
    """A rank with a GPU learns about a step one step later than one without."""

    def splits(lag: int) -> list[tuple[int, ...]]:
        balance = Balance(32, Split.by_pace(32, [1.0] * 3))
        used = []
        for step in range(len(heard)):
            used.append(balance.at(step).counts)
            if (done := step + 1 - lag) > 0:
                balance.add(done, heard[done - 1], [0.01] * 3)
        return used

    assert splits(0) == splits(1)


def balanced(paces: list[float], steps: int) -> list[tuple[int, ...]]:
    balance = Balance(16, Split.by_pace(16, [1.0] * len(paces)))
    used = []
    for step in range(steps):
        used.append(balance.at(step).counts)
        balance.add(step + 1, paces, [0.0] * len(paces))
    return used


def test_a_change_comes_once_and_two_steps_after_the_look() -> None:
    look = SETTLING + FIRST_REVIEW
    assert balanced([1.0, 3.1], 200) == [(8, 8)] * (look + 1) + [(12, 4)] * (199 - look)


def test_a_small_gain_changes_nothing() -> None:
    assert set(balanced([1.0, 1.15], 200)) == {(8, 8)}


def test_a_rank_that_reported_nothing_is_waited_for() -> None:
    assert set(balanced([1.0, 0.0], 200)) == {(8, 8)}


def test_a_step_that_took_long_once_does_not_count() -> None:
    balance = Balance(16, Split.by_pace(16, [1.0, 1.0]))
    for step in range(SETTLING + FIRST_REVIEW):
        look = balance.add(step + 1, [1.0, 40.0 if step == 5 else 1.0], [0.0, 0.0])
    assert look is not None
    assert not look.changed


def test_a_rank_that_costs_more_than_it_gives() -> None:
    paces = [0.01, 0.01, 0.5]
    split = Split.by_pace(16, paces)
    assert split.counts == (8, 7, 1)
    cost = costly(16, split, paces, network=0.02)
    assert cost is not None
    assert cost.rank == 2
    assert cost.seconds == pytest.approx(0.52)
    assert cost.without == pytest.approx(0.08 + 0.02 * 3 / 4)
    assert cost_words(["a", "b", "c"], cost) == (
        "c slows training down: computing and summing take about 520 ms of a step with it, and about 95.0 ms without it"
    )


def test_a_slow_network_costs_more_than_half_the_work() -> None:
    even = Split.by_pace(16, [0.01, 0.01])
    assert costly(16, even, [0.01, 0.01], network=0.07) is None
    cost = costly(16, even, [0.01, 0.01], network=0.1)
    assert cost is not None
    assert cost.without == pytest.approx(0.16)
    assert cost_words(["a"], None) == ""


def test_words() -> None:
    assert split_words(["node1", "node2"], [12, 4], [1.0, 3.1]) == (
        "node1 takes 12 of 16 sequences, node2 4: node1 was measured 3.1 times as fast as node2"
    )
    even = split_words([f"n{number}" for number in range(10)], [2] * 10, [1.0] * 10)
    assert even.startswith("n0 takes 2 of 20 sequences, n1 2,")
    assert even.endswith("n7 2, 2 more 4 together: measured about equally fast")


def test_messages_become_records() -> None:
    message = {"kind": "shares", "step": 8, "sentence": "a takes 12", "counts": [12, 4], "cost": "b costs more"}
    shares, notice = records_of("node1", 0, message)
    assert isinstance(shares, events.SharesChanged)
    assert (shares.message, shares.counts) == ("a takes 12", [12, 4])
    assert isinstance(notice, events.Notice)
    assert notice.message == "b costs more"
    assert len(list(records_of("node1", 0, {**message, "cost": ""}))) == 1


def test_weights_of_nodes_are_those_of_their_ranks() -> None:
    members = [Placement(node="a", address="10.0.0.1", ranks=2), Placement(node="b", address="10.0.0.2")]
    assert names_of(members) == ("a:0", "a:1", "b")
    assert shares_of({"shares": {"a": 3}}, members) == (3.0, 3.0, 1.0)
    assert shares_of({"shares": "speed"}, members) == (1.0, 1.0, 1.0)
