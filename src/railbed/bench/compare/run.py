"""An experiment: two arms in turns, or one of them in each of two visits; "no difference seen" is an answer too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from railbed.bench.change import NotUndone, changed
from railbed.bench.compare.arms import TOO_FEW, Contest, Side, answer, labelled, summed, unanswered
from railbed.bench.compare.experiment import Arm, Comparison, Experiment
from railbed.bench.compare.visits import FirstVisit, apart_since, first_visit_event
from railbed.bench.measure.results import left_out, not_undone, unreachable, were_measured
from railbed.bench.measure.schedule import make_schedule
from railbed.bench.measure.trials import Progress, run_trials
from railbed.bench.site import BenchSite, read_site, site_of
from railbed.bench.suite import Step, Suite
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Record


@dataclass
class Ongoing:
    """An experiment that is being measured: what can be said of it when it is cut short."""

    unanswered: list[Contest] = field(default_factory=list)
    """Comparisons whose answer is due in this visit."""
    tests: dict[str, list[str]] = field(default_factory=dict)

    def judged(self) -> Iterator[Record]:
        """Answer what was measured on both sides until now."""
        for contest in self.unanswered:
            if contest.a.values and contest.b.values:
                yield from answer(contest)
        yield from were_measured(self.tests)


async def compare_arms(
    cluster: Cluster,
    fleet: Fleet,
    experiment: Experiment,
    name: str,
    first: FirstVisit | None = None,
    *,
    ongoing: Ongoing | None = None,
) -> AsyncGenerator[Record, None]:
    """Run an experiment on a cluster; `first` is the first of two visits, where this is the second."""
    ongoing = ongoing or Ongoing()
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(read_site(cluster, fleet, facts)) as told:
        async for event in told:
            yield event
    site = site_of(cluster, facts)
    for node, why in site.failed.items():
        yield unreachable(node, why)
    contests = [_contest(number, one, experiment, site, first) for number, one in enumerate(experiment.comparisons, 1)]
    yield _planned(name, experiment, contests)
    for omitted in dict.fromkeys(one for side in _sides(contests) for one in (side.plan.omitted if side.plan else ())):
        yield left_out(omitted)
    progress = Progress(site=site, first_port=experiment.first_port, tests=ongoing.tests)
    progress.pace.plan(_planned_trials(experiment, contests))
    ongoing.unanswered += contests if experiment.visits == 1 or first is not None else ()
    for contest in contests:
        async with aclosing(_measured(fleet, cluster, experiment, contest, progress, first)) as records:
            async for record in records:
                yield record
        ongoing.unanswered = [one for one in ongoing.unanswered if one is not contest]
    if experiment.visits == 2 and first is None and any(contest.a.values for contest in contests):
        yield first_visit_event(name, experiment, contests)
    for finding in were_measured(progress.tests):
        yield finding


def _contest(
    number: int, comparison: Comparison, experiment: Experiment, site: BenchSite, first: FirstVisit | None
) -> Contest:
    """Lay out what of a comparison is measured in this visit; what was measured in the first is taken from there."""

    def side(arm: Arm, step: Step, *, now: bool) -> Side:
        plan = make_schedule(Suite(steps=(step.model_copy(update={"repeats": 1}),)), site) if now else None
        return Side(arm=arm, step=step, plan=plan)

    a = side(experiment.a, comparison.a, now=first is None)
    b = side(experiment.b, comparison.b, now=experiment.visits == 1 or first is not None)
    if first is not None:
        a.values = first.values_of(number)
    return Contest(number=number, comparison=comparison, a=a, b=b, apart=apart_since(first.ended) if first else "")


def _sides(contests: Sequence[Contest]) -> Iterator[Side]:
    for contest in contests:
        yield from contest.now


def _planned(name: str, experiment: Experiment, contests: Sequence[Contest]) -> Event:
    sides = list(_sides(contests))
    seconds = experiment.repeats * sum(side.plan.seconds for side in sides if side.plan)
    data = {"suite": name, "trials": experiment.repeats * len(sides), "seconds": round(seconds, 1)}
    return Event(name="bench", subject=name, message=f"{name}: about {seconds:.0f} s", data=data)


def _planned_trials(experiment: Experiment, contests: Sequence[Contest]) -> Iterator[tuple[str, float]]:
    for side in _sides(contests):
        for trial in side.plan.trials if side.plan else ():
            yield from [(trial.step.test, trial.seconds)] * experiment.repeats


async def _measured(  # noqa: PLR0917  (all that a turn needs)
    fleet: Fleet,
    cluster: Cluster,
    experiment: Experiment,
    contest: Contest,
    progress: Progress,
    first: FirstVisit | None,
) -> AsyncGenerator[Record, None]:
    """Measure what is to be measured now, and answer where both arms are known."""
    if first is not None:
        for value in contest.a.values.values():
            yield value
        if why := first.misfit(contest):
            yield unanswered(contest, why)
            return
    if progress.left_changed:
        yield unanswered(contest, f"not measured, since {progress.left_changed.message}")
        return
    if not all(side.plan and side.plan.trials for side in contest.now):
        yield unanswered(contest, _why_not(contest))
        return
    async with aclosing(_in_turns(fleet, cluster, experiment, contest, progress)) as records:
        async for record in records:
            yield record
    if experiment.visits == 1 or first is not None:
        for record in answer(contest):
            yield record
    elif not contest.a.values:
        yield unanswered(contest, TOO_FEW)


def _why_not(contest: Contest) -> str:
    """Say why an arm cannot be measured at all."""
    omitted = [one.reason for side in contest.now if side.plan for one in side.plan.omitted]
    return f"it cannot be measured here: {', '.join(dict.fromkeys(omitted))}" if omitted else TOO_FEW


async def _in_turns(
    fleet: Fleet, cluster: Cluster, experiment: Experiment, contest: Contest, progress: Progress
) -> AsyncGenerator[Record, None]:
    """Measure the arms in turns; who begins changes, so that neither is always the first."""
    for repeat in range(1, experiment.repeats + 1):
        for side in contest.now if repeat % 2 else contest.now[::-1]:
            trials = side.plan.trials if side.plan else ()
            numbered = [replace(trial, repeat=repeat, number=_next(progress)) for trial in trials]
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
                        yield labelled(record, side.arm.name)
            except NotUndone as error:
                if _ends_all(error.__context__):
                    raise
                progress.left_changed = error
            except DeviceError as error:
                yield Event(name="notice", subject=side.arm.name, message=error.message)
            value = summed(numbered, progress.measured[begun:], contest.comparison.measure)
            if value is not None:
                yield contest.keep(side, repeat, value)
            if left := progress.left_changed:
                for node, reason in left.reasons.items():
                    yield not_undone(node, side.arm.name, reason, left.hint)
                return


def _ends_all(error: BaseException | None) -> bool:
    """Whether we are told to end, as by Ctrl-C: then nobody takes a record any more."""
    return error is not None and not isinstance(error, Exception)


def _next(progress: Progress) -> int:
    progress.trials += 1
    return progress.trials
