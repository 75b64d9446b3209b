"""The estimated duration of a benchmark, corrected by how long trials really take, separately for each test."""

from __future__ import annotations

from tests.unit.cli.test_progress import Clock

from railbed.bench.pace import Pace
from railbed.model.events import TrialStarted


def paced(*trials: tuple[str, float]) -> tuple[Pace, Clock]:
    clock = Clock()
    pace = Pace(clock)
    pace.expect(trials)
    return pace, clock


def begin(pace: Pace, test: str, planned: float) -> TrialStarted:
    return pace.begin(TrialStarted(message=test), planned)


def test_before_anything_was_measured_the_plan_counts() -> None:
    pace, _ = paced(("bw", 2.0), ("bw", 2.0), ("lat", 1.0))
    data = begin(pace, "bw", 2.0).data
    assert data == {"done": 0, "total": 3, "elapsed": 0.0, "expected": 2.0, "left": 5.0}


def test_slow_trials_make_the_rest_longer() -> None:
    """An emulated machine takes four times as long: 100 s announced are 400 s."""
    pace, clock = paced(*[("bw", 2.0)] * 50)
    begin(pace, "bw", 2.0)
    clock.now = 8.0
    trial = begin(pace, "bw", 2.0)
    assert (trial.done, trial.total, trial.expected, trial.left) == (1, 50, 8.0, 49 * 8.0)


def test_a_test_is_judged_by_its_own_kind_where_that_is_known() -> None:
    pace, clock = paced(("bw", 10.0), ("lat", 1.0), ("lat", 1.0), ("bw", 10.0), ("other", 2.0))
    begin(pace, "bw", 10.0)
    clock.now = 10.0
    begin(pace, "lat", 1.0)
    clock.now = 21.0
    trial = begin(pace, "lat", 1.0)
    overall = 21 / 11
    assert trial.left == round(11.0 + 10.0 + 2.0 * overall, 1)


def test_a_second_look_adds_to_what_is_left() -> None:
    pace, clock = paced(("bw", 2.0))
    begin(pace, "bw", 2.0)
    clock.now = 2.0
    pace.expect([("bw", 2.0), ("bw", 2.0)])
    trial = begin(pace, "bw", 2.0)
    assert (trial.done, trial.total, trial.left) == (1, 3, 4.0)


def test_what_was_not_planned_is_counted_all_the_same() -> None:
    pace, _ = paced()
    assert begin(pace, "bw", 3.0).total == 1
