from __future__ import annotations

import pytest

from railbed.fleet.sample.clock import Alignment, ControlClock, WallClock


def test_an_answer_bounds_the_offset() -> None:
    alignment = Alignment()
    assert not alignment.known
    alignment.add(sent=10.0, node=110.004, received=10.010)
    assert alignment.offset == pytest.approx(99.999)
    assert alignment.error == pytest.approx(0.005)
    assert alignment.to_ours(120.0) == pytest.approx(20.001)


def test_slow_answers_do_not_spoil_a_quick_one() -> None:
    alignment = Alignment()
    alignment.add(sent=10.0, node=110.0005, received=10.001)
    for second in range(11, 20):
        alignment.add(sent=float(second), node=second + 100.4, received=second + 0.5)
    assert abs(alignment.offset - 100) <= alignment.error < 0.005


def test_slow_answers_from_both_sides_together_are_precise() -> None:
    alignment = Alignment()
    alignment.add(sent=10.0, node=110.001, received=10.4)
    alignment.add(sent=11.0, node=111.399, received=11.4)
    assert alignment.error < 0.002
    assert alignment.offset == pytest.approx(100.0, abs=alignment.error)


def test_a_clock_that_stood_still_is_measured_anew() -> None:
    alignment = Alignment()
    alignment.add(sent=10.0, node=110.0005, received=10.001)
    alignment.add(sent=70.0, node=112.0005, received=70.001)
    assert alignment.offset == pytest.approx(42.0)


def test_adjusting_a_clock_is_not_setting_it() -> None:
    clock = WallClock()
    assert [clock.set(distance) for distance in (1000.0, 1000.0005, 1000.001)] == [0.0, 0.0, 0.0]
    assert clock.set(3600.0) == pytest.approx(2599.999)
    assert clock.set(3600.0) == 0.0


def test_times_follow_our_clock_when_it_is_set() -> None:
    wall, monotonic = [5000.0], [10.0]
    clock = ControlClock(lambda: wall[0], lambda: monotonic[0])
    assert clock.time_of(9.0) == 4999.0
    wall[0], monotonic[0] = 5031.0, 11.0
    assert clock.time_of(11.0) == 5031.0
    assert clock.check() == pytest.approx(30.0)
    assert clock.check() == 0.0
