"""The arms of an experiment and what comes of them: a number for each repeat, and the difference with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from railbed.bench.compare.experiment import Arm, Comparison
from railbed.bench.judge.baseline import higher_is_better
from railbed.bench.measure.schedule import Schedule, Trial
from railbed.bench.suite import Step
from railbed.model.amount import number
from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.model.statistics import Difference, paired_difference, separate_difference

DIFFERENCE, ARM_VALUE = "bench_difference", "arm_value"
WHY = "A setting is worth what it changes: measured in turns, so that a busy minute meets both arms."
WHY_APART = (
    "What a person has to change cannot be measured in turns: the interval knows how far the repeats of a visit lie "
    "apart, not what else changed between the visits."
)
UNITS = {"bandwidth": "Gb/s", "disk_bandwidth": "GB/s", "disk_operations": "1/s"}
TOO_FEW = "too few repeats of both arms were measured"


@dataclass(slots=True, kw_only=True)
class Side:
    """One arm of one comparison: how it is measured now, or its numbers from before."""

    arm: Arm
    step: Step
    plan: Schedule | None = None
    """None where it is measured in another visit."""
    values: dict[int, Measurement] = field(default_factory=dict)
    """Its number for each repeat."""

    @property
    def numbers(self) -> list[float]:
        """The numbers, in the order of the repeats."""
        return [self.values[repeat].value for repeat in sorted(self.values)]

    @property
    def ways(self) -> list[str]:
        """Who is measured with whom."""
        flows = [flow for trial in (self.plan.trials if self.plan else ()) for flow in trial.flows]
        return sorted({f"{flow.source.node} > {flow.target.node} on {flow.source.rail}" for flow in flows})


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One comparison, with both of its arms."""

    number: int
    comparison: Comparison
    a: Side
    b: Side
    apart: str = ""
    """How long lay between the visits, where the arms were not measured in turns."""

    @property
    def now(self) -> list[Side]:
        """The arms that are measured in this visit."""
        return [side for side in (self.a, self.b) if side.plan is not None]

    @property
    def subject(self) -> str:
        """What is compared, in short."""
        same = self.a.step.test == self.b.step.test
        return f"{self.comparison.measure} ({self.a.step.test})" if same else self.comparison.measure

    @property
    def unit(self) -> str:
        """The unit of the measure."""
        return UNITS.get(self.comparison.measure, "us")

    def keep(self, side: Side, repeat: int, value: float) -> Measurement:
        """Keep an arm's number, and return it as a record."""
        labels: dict[str, str | int] = {
            "comparison": self.number,
            "measure": self.comparison.measure,
            "arm": side.arm.name,
            "test": side.step.test,
            "repeat": repeat,
        }
        side.values[repeat] = Measurement(name=ARM_VALUE, value=value, unit=self.unit, labels=labels)
        return side.values[repeat]


def summed(trials: Sequence[Trial], measured: Iterable[Measurement], measure: str) -> float | None:
    """Return an arm's number: bandwidths of a trial add up, latencies are averaged, and so are several trials."""
    by_trial: dict[object, list[float]] = {trial.number: [] for trial in trials}
    for one in measured:
        if one.name == measure and one.labels.get("stat") in (None, "p50"):
            by_trial[one.labels["trial"]].append(one.value)
    if not all(by_trial.values()):
        return None
    adds_up = measure.endswith("bandwidth")
    totals = [sum(values) if adds_up else sum(values) / len(values) for values in by_trial.values()]
    return sum(totals) / len(totals)


def answer(contest: Contest) -> Iterator[Record]:
    """Yield the difference and what it means."""
    found = _difference(contest)
    if found is None:
        yield unanswered(contest, TOO_FEW)
        return
    a, b, measure = contest.a.arm.name, contest.b.arm.name, contest.comparison.measure
    labels: dict[str, str | int] = {
        "comparison": contest.number,
        "measure": measure,
        "a": a,
        "b": b,
        "test_a": contest.a.step.test,
        "test_b": contest.b.step.test,
        "repeats": found.repeats,
    }
    for bound, value in (("mean", found.mean), ("low", found.low), ("high", found.high)):
        yield Measurement(name="difference", value=value, unit=contest.unit, labels={**labels, "bound": bound})
    told = worded(found, a, b, measure, contest.unit.replace("us", "µs"))
    if contest.apart:
        told += f"; in two visits {contest.apart} apart, so whatever else changed between them is in it"
    yield _finding(contest, Verdict.OK, told)


def _difference(contest: Contest) -> Difference | None:
    if contest.apart:
        enough = min(len(contest.a.values), len(contest.b.values)) >= 2
        return separate_difference(contest.a.numbers, contest.b.numbers) if enough else None
    both = sorted(contest.a.values.keys() & contest.b.values.keys())
    if len(both) < 2:
        return None
    a, b = ([side.values[one].value for one in both] for side in (contest.a, contest.b))
    return paired_difference(a, b)


def worded(found: Difference, a: str, b: str, measure: str, unit: str) -> str:
    """Return the answer as a sentence."""
    numbers = f"{a} {number(found.a)} {unit}, {b} {number(found.b)} {unit}"
    shown, scale = ("%", 100 / found.a) if found.a else (unit, 1.0)
    low, high = sorted(bound * scale for bound in (found.low, found.high))
    interval = f"{low:+z.1f} {shown} to {high:+z.1f} {shown}, 95 % confidence, {found.repeats} repeats"
    if not found.is_seen:
        return f"{numbers}: no difference seen ({interval})"
    better = (found.mean > 0) == (higher_is_better(measure) is not False)
    by = f"{abs(found.mean * scale):.1f} {shown}"
    return f"{numbers}: {b} is {'better' if better else 'worse'} by {by} ({interval})"


def unanswered(contest: Contest, why: str) -> Finding:
    """Return the finding for a comparison without an answer."""
    return _finding(contest, Verdict.UNKNOWN, why)


def _finding(contest: Contest, verdict: Verdict, observed: str) -> Finding:
    return Finding(
        check=DIFFERENCE,
        subject=contest.subject,
        verdict=verdict,
        expected="",
        observed=observed,
        why=WHY_APART if contest.apart else WHY,
    )


def labelled(record: Record, arm: str) -> Record:
    """Return a record with its arm, where it is a measurement."""
    return replace(record, labels={**record.labels, "arm": arm}) if isinstance(record, Measurement) else record
