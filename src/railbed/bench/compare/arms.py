"""The arms of an experiment: one number per repeat, and the difference with its confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from railbed.bench.baseline import higher_is_better
from railbed.bench.compare.experiment import Arm, Comparison
from railbed.bench.schedule import BenchSchedule, Omitted, Trial
from railbed.bench.suite import Step
from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.model.statistics import Difference, paired_difference, separate_difference
from railbed.model.text import number

DIFFERENCE, ARM_VALUE, ARM_MEAN = "bench_difference", "arm_value", "arm_mean"
WHY = "A setting is worth what it changes: the arms take turns, so that a busy minute affects both."
WHY_APART = (
    "A change that takes a person cannot be measured in turns: the interval covers how much the repeats of a visit "
    "vary, not what else changed between the visits."
)
WHY_BLOCKS = (
    "Each change of a switch interrupts its ports, so it is changed once: the interval covers how much the repeats of "
    "an arm vary, not what else changed meanwhile; the arm without changes is measured before and after the other."
)
UNITS = {"bandwidth": "Gb/s", "disk_bandwidth": "GB/s", "disk_operations": "1/s"}
TOO_FEW = "too few repeats of both arms were measured"


@dataclass(slots=True, kw_only=True)
class Side:
    """One arm of one comparison: its schedule for this visit, or its numbers from the first."""

    arm: Arm
    step: Step
    schedule: BenchSchedule | None = None
    """None if it is measured in the other visit."""
    values: dict[int, Measurement] = field(default_factory=dict)
    """Its value by repeat."""

    @property
    def numbers(self) -> list[float]:
        """The values, in the order of the repeats."""
        return [self.values[repeat].value for repeat in sorted(self.values)]

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials of this visit."""
        return self.schedule.trials if self.schedule else ()

    @property
    def omitted(self) -> Sequence[Omitted]:
        """The parts that cannot be measured here."""
        return self.schedule.omitted if self.schedule else ()

    @property
    def paths(self) -> list[str]:
        """The measured paths: sender, receiver and rail."""
        flows = [flow for trial in self.trials for flow in trial.flows]
        return sorted({f"{flow.source.node} > {flow.target.node} on {flow.source.rail}" for flow in flows})


@dataclass(slots=True, kw_only=True)
class Contest:
    """One comparison with both of its arms."""

    number: int
    comparison: Comparison
    a: Side
    b: Side
    apart: str = ""
    """The time between the visits; empty if the arms took turns."""
    in_blocks: bool = False
    """All repeats of an arm were measured together, since its change interrupts a switch."""

    def side_of(self, arm: Arm) -> Side:
        """Return an arm's side."""
        return self.a if self.a.arm is arm else self.b

    @property
    def now(self) -> list[Side]:
        """The arms that are measured in this visit."""
        return [side for side in (self.a, self.b) if side.schedule is not None]

    @property
    def subject(self) -> str:
        """What is compared, in brief."""
        same = self.a.step.test == self.b.step.test
        return f"{self.comparison.measure} ({self.a.step.test})" if same else self.comparison.measure

    @property
    def unit(self) -> str:
        """The unit of the measure."""
        return UNITS.get(self.comparison.measure, "us")

    def add(self, side: Side, repeat: int, value: float) -> Measurement:
        """Add an arm's value for a repeat, and return it as a record."""
        labels: dict[str, str | int] = {
            "comparison": self.number,
            "measure": self.comparison.measure,
            "arm": side.arm.name,
            "test": side.step.test,
            "repeat": repeat,
        }
        side.values[repeat] = Measurement(name=ARM_VALUE, value=value, unit=self.unit, labels=labels)
        return side.values[repeat]


def arm_value(trials: Sequence[Trial], measured: Iterable[Measurement], measure: str) -> float | None:
    """Return the value of an arm: add up the bandwidths of a trial or average its latencies, then average trials."""
    by_trial: dict[object, list[float]] = {trial.number: [] for trial in trials}
    for measurement in measured:
        if measurement.name == measure and measurement.labels.get("stat") in (None, "p50"):
            by_trial[measurement.labels["trial"]].append(measurement.value)
    if not all(by_trial.values()):
        return None
    adds_up = measure.endswith("bandwidth")
    totals = [sum(values) if adds_up else sum(values) / len(values) for values in by_trial.values()]
    return sum(totals) / len(totals)


def answer(contest: Contest) -> Iterator[Record]:
    """Yield the difference, and a finding that puts it into words."""
    difference = _difference(contest)
    if difference is None:
        yield find_no_answer(contest, TOO_FEW)
        return
    a, b, measure = contest.a.arm.name, contest.b.arm.name, contest.comparison.measure
    labels: dict[str, str | int] = {
        "comparison": contest.number,
        "measure": measure,
        "a": a,
        "b": b,
        "test_a": contest.a.step.test,
        "test_b": contest.b.step.test,
        "repeats": difference.repeats,
    }
    for arm, test, value in ((a, contest.a.step.test, difference.a), (b, contest.b.step.test, difference.b)):
        own: dict[str, str | int] = {"comparison": contest.number, "measure": measure, "arm": arm, "test": test}
        yield Measurement(name=ARM_MEAN, value=value, unit=contest.unit, labels={**own, "repeats": difference.repeats})
    for bound, value in (("mean", difference.mean), ("low", difference.low), ("high", difference.high)):
        yield Measurement(name="difference", value=value, unit=contest.unit, labels={**labels, "bound": bound})
    sentence = describe(difference, a, b, measure, contest.unit.replace("us", "µs"))
    if contest.apart:
        sentence += (
            f"; measured in two visits {contest.apart} apart, so it includes anything else that changed in between"
        )
    if contest.in_blocks:
        sentence += "; the arms did not take turns, so it includes anything else that changed meanwhile"
    yield _finding(contest, Verdict.OK, sentence)


def _difference(contest: Contest) -> Difference | None:
    if contest.apart or contest.in_blocks:
        enough = min(len(contest.a.values), len(contest.b.values)) >= 2
        return separate_difference(contest.a.numbers, contest.b.numbers) if enough else None
    both = sorted(contest.a.values.keys() & contest.b.values.keys())
    if len(both) < 2:
        return None
    a, b = ([side.values[repeat].value for repeat in both] for side in (contest.a, contest.b))
    return paired_difference(a, b)


def describe(difference: Difference, a: str, b: str, measure: str, unit: str) -> str:
    """Describe a difference in one sentence."""
    numbers = f"{a} {number(difference.a)} {unit}, {b} {number(difference.b)} {unit} in the mean"
    shown, scale = ("%", 100 / difference.a) if difference.a else (unit, 1.0)
    low, high = sorted(bound * scale for bound in (difference.low, difference.high))
    interval = f"{low:+z.1f} {shown} to {high:+z.1f} {shown}, 95 % confidence, {difference.repeats} repeats"
    if not difference.is_seen:
        return f"{numbers}: no difference seen ({interval})"
    better = (difference.mean > 0) == (higher_is_better(measure) is not False)
    by = f"{abs(difference.mean * scale):.1f} {shown}"
    return f"{numbers}: {b} is {'better' if better else 'worse'} by {by} ({interval})"


def find_no_answer(contest: Contest, reason: str) -> Finding:
    """Return the finding for a comparison without an answer."""
    return _finding(contest, Verdict.UNKNOWN, reason)


def _finding(contest: Contest, verdict: Verdict, observed: str) -> Finding:
    return Finding(
        check=DIFFERENCE,
        subject=contest.subject,
        verdict=verdict,
        expected="",
        observed=observed,
        why=WHY_APART if contest.apart else WHY_BLOCKS if contest.in_blocks else WHY,
    )


def label_arm(record: Record, arm: str) -> Record:
    """Return a measurement labelled with its arm, and any other record unchanged."""
    return replace(record, labels={**record.labels, "arm": arm}) if isinstance(record, Measurement) else record
