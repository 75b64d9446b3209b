"""An experiment: two arms in turns, and their difference with its interval; "no difference seen" is an answer too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from railbed.bench.account import left_out, unreachable, were_measured
from railbed.bench.baseline import higher_is_better
from railbed.bench.change import changed
from railbed.bench.experiment import Arm, Comparison, Experiment
from railbed.bench.plan import Plan, Trial, make_plan
from railbed.bench.run import read_site
from railbed.bench.site import BenchSite, site_of
from railbed.bench.statistics import Difference, paired_difference
from railbed.bench.suite import Step, Suite
from railbed.bench.trials import Progress, run_trials
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Measurement, Record, Verdict

DIFFERENCE = "bench_difference"
WHY = "A setting is worth what it changes: measured in turns, so that a busy minute meets both arms."


@dataclass
class _Side:
    """One arm of one comparison: its trials, and a number for each repeat."""

    arm: Arm
    plan: Plan
    values: dict[int, float] = field(default_factory=dict)


async def compare_arms(
    cluster: Cluster, fleet: Fleet, experiment: Experiment, name: str
) -> AsyncGenerator[Record, None]:
    """Run an experiment on a cluster."""
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(read_site(cluster, fleet, facts)) as told:
        async for event in told:
            yield event
    site = site_of(cluster, facts)
    for node, why in site.failed.items():
        yield unreachable(node, why)
    sides = [
        (one, _side(one.a, experiment.a, site), _side(one.b, experiment.b, site)) for one in experiment.comparisons
    ]
    seconds = experiment.repeats * sum(side.plan.seconds for _, *both in sides for side in both)
    data = {"suite": name, "trials": experiment.repeats * 2 * len(sides), "seconds": round(seconds, 1)}
    yield Event(name="bench", subject=name, message=f"{name}: about {seconds:.0f} s", data=data)
    for omitted in dict.fromkeys(one for _, *both in sides for side in both for one in side.plan.omitted):
        yield left_out(omitted)
    progress = Progress(site=site, first_port=experiment.first_port)
    for comparison, *both in sides:
        if all(side.plan.trials for side in both):
            async with aclosing(_in_turns(fleet, cluster, experiment, comparison, both, progress)) as records:
                async for record in records:
                    yield record
        for record in _judged(comparison, *both):
            yield record
    for finding in were_measured(progress.tests):
        yield finding


def _side(step: Step, arm: Arm, site: BenchSite) -> _Side:
    return _Side(arm, make_plan(Suite(steps=(step.model_copy(update={"repeats": 1}),)), site))


async def _in_turns(  # noqa: PLR0917  (all that a turn needs)
    fleet: Fleet,
    cluster: Cluster,
    experiment: Experiment,
    comparison: Comparison,
    sides: Sequence[_Side],
    progress: Progress,
) -> AsyncGenerator[Record, None]:
    """Measure the arms in turns; who begins changes, so that neither is always the first."""
    for repeat in range(1, experiment.repeats + 1):
        for side in sides if repeat % 2 else sides[::-1]:
            numbered = [replace(trial, repeat=repeat, number=_next(progress)) for trial in side.plan.trials]
            nodes = sorted(
                {end.node for trial in numbered for flow in trial.flows for end in (flow.source, flow.target)}
            )
            begun = len(progress.measured)
            try:
                async with (
                    changed(fleet, cluster, nodes, side.arm.change),
                    aclosing(run_trials(fleet, numbered, progress)) as records,
                ):
                    async for record in records:
                        yield _labelled(record, side.arm.name)
            except DeviceError as error:
                yield Event(name="notice", subject=side.arm.name, message=error.message)
            value = summed(numbered, progress.measured[begun:], comparison.measure)
            if value is not None:
                side.values[repeat] = value


def _next(progress: Progress) -> int:
    progress.trials += 1
    return progress.trials


def _labelled(record: Record, arm: str) -> Record:
    return replace(record, labels={**record.labels, "arm": arm}) if isinstance(record, Measurement) else record


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


def _judged(comparison: Comparison, a: _Side, b: _Side) -> Iterable[Record]:
    both = sorted(a.values.keys() & b.values.keys())
    if len(both) < 2:
        yield _finding(comparison, Verdict.UNKNOWN, "too few repeats of both arms were measured")
        return
    found = paired_difference([a.values[one] for one in both], [b.values[one] for one in both])
    unit = {"bandwidth": "Gb/s", "disk_bandwidth": "GB/s", "disk_operations": "1/s"}.get(comparison.measure, "us")
    labels: dict[str, str | int] = {
        "measure": comparison.measure,
        "a": a.arm.name,
        "b": b.arm.name,
        "test_a": comparison.a.test,
        "test_b": comparison.b.test,
        "repeats": found.pairs,
    }
    for bound, value in (("mean", found.mean), ("low", found.low), ("high", found.high)):
        yield Measurement(name="difference", value=value, unit=unit, labels={**labels, "bound": bound})
    yield _finding(comparison, Verdict.OK, worded(found, a.arm.name, b.arm.name, comparison.measure, unit))


def worded(found: Difference, a: str, b: str, measure: str, unit: str) -> str:
    """Return the answer as a sentence."""
    numbers = f"{a} {found.a:.4g} {unit}, {b} {found.b:.4g} {unit}"
    low, high = sorted(100 * bound / found.a for bound in (found.low, found.high)) if found.a else (0.0, 0.0)
    interval = f"{low:+.1f} % to {high:+.1f} %, 95 % confidence, {found.pairs} repeats"
    if not found.is_seen:
        return f"{numbers}: no difference seen ({interval})"
    better = (found.mean > 0) == (higher_is_better(measure) is not False)
    return f"{numbers}: {b} is {'better' if better else 'worse'} by {abs(found.mean / found.a):.1%} ({interval})"


def _finding(comparison: Comparison, verdict: Verdict, observed: str) -> Finding:
    return Finding(
        check=DIFFERENCE, subject=comparison.measure, verdict=verdict, expected="", observed=observed, why=WHY
    )
