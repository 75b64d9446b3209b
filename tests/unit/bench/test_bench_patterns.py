"""Which nodes measure with which, and when."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.bench.pace import PATTERNS, rounds_of, tournament
from railbed.bench.schedule import free_ports

FOUR = ["a", "b", "c", "d"]


@given(st.integers(2, 20))
def test_in_a_tournament_every_pair_meets_once_and_no_node_is_in_two_pairs(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    rounds = tournament(nodes)
    for pairs in rounds:
        assert max(Counter(node for pair in pairs for node in pair).values()) == 1
    met = [pair for pairs in rounds for pair in pairs]
    assert set(met) == set(combinations(nodes, 2))
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)


def test_patterns() -> None:
    assert rounds_of("pair", FOUR, "one") == [[("a", "b")]]
    assert rounds_of("pair", FOUR, "each") == [[("a", "b")], [("b", "a")]]
    assert len(rounds_of("matrix", FOUR, "each")) == 12
    assert len(rounds_of("rounds", FOUR, "each")) == 6
    assert rounds_of("ring", FOUR, "one") == [[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]]
    assert rounds_of("incast", ["a", "b", "c"], "one")[0] == [("b", "a"), ("c", "a")]
    assert [len(pairs) for pairs in rounds_of("all", FOUR, "each")] == [12]
    assert [len(pairs) for pairs in rounds_of("ring", ["a", "b"], "each")] == [2]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_one_node_has_nobody_to_measure_with(pattern: str) -> None:
    assert rounds_of(pattern, ["a"], "each") == []  # type: ignore[arg-type]


def test_ports_are_free_on_every_node_and_come_round() -> None:
    assert free_ports(20500, 3, [frozenset({20501}), frozenset({20503})], 0) == [20500, 20502, 20504]
    assert free_ports(20500, 1, [], 1999) == [22499]
    assert free_ports(20500, 1, [], 2000) == [20500]
    assert free_ports(65534, 2, [], 1) == [65535, 65534]
