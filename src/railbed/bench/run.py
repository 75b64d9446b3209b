"""The verb: read the ports, lay out the suite, measure trial by trial, and judge."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from railbed.bench.collective.run import collect
from railbed.bench.judge.baseline import Baseline
from railbed.bench.judge.verdicts import all_verdicts
from railbed.bench.measure.remeasure import announced, doubtful_ways, second_look
from railbed.bench.measure.results import left_out, unreachable, were_measured
from railbed.bench.measure.schedule import Schedule, collective_seconds, make_schedule
from railbed.bench.measure.trials import Progress, run_trials
from railbed.bench.site import BenchSite, read_site, site_of
from railbed.bench.suite import Suite
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Measurement, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What was asked for."""

    name: str
    suite: Suite
    baseline: Baseline | None = None
    progress: list[Progress] = field(default_factory=list)
    """How far it has come, once it has begun to measure."""

    def judged(self) -> Iterator[Finding]:
        """Judge what was measured until now: at the end, or where measuring was cut short."""
        for progress in self.progress:
            yield from were_measured(progress.tests)
            yield from all_verdicts(progress.site, progress.measured, self.baseline)


async def bench(cluster: Cluster, fleet: Fleet, request: BenchRequest) -> AsyncGenerator[Record, None]:
    """Measure a suite on a cluster."""
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(read_site(cluster, fleet, facts)) as told:
        async for event in told:
            yield event
    site = site_of(cluster, facts)
    plan = make_schedule(request.suite, site)
    for node, why in site.failed.items():
        yield unreachable(node, why)
    yield _planned(request, plan)
    for omitted in plan.omitted:
        yield left_out(omitted)
    progress = _begun(request, site, plan)
    async with aclosing(_measure(fleet, plan, progress)) as records:
        async for record in records:
            yield record
    missing = {*site.failed, *progress.gone}
    collected = collect(cluster, fleet, plan.collectives, facts, leave_out=missing, pace=progress.pace)
    async with aclosing(collected) as more:
        async for record in more:
            if isinstance(record, Measurement):
                progress.measured.append(record)
            yield record
    for finding in request.judged():
        yield finding


def _begun(request: BenchRequest, site: BenchSite, plan: Schedule) -> Progress:
    progress = Progress(site=site, first_port=request.suite.first_port)
    progress.pace.plan((trial.step.test, trial.seconds) for trial in plan.trials)
    progress.pace.plan((step.test, collective_seconds(step)) for step in plan.collectives)
    request.progress.append(progress)
    return progress


async def _measure(fleet: Fleet, plan: Schedule, progress: Progress) -> AsyncGenerator[Record, None]:
    """Run what is planned, and then once more what is slow for no reason that can be seen."""
    async with aclosing(run_trials(fleet, plan.trials, progress)) as records:
        async for record in records:
            yield record
    doubtful = doubtful_ways(progress.measured)
    again = second_look(plan, doubtful)
    if not again:
        return
    progress.pace.plan((trial.step.test, trial.seconds) for trial in again)
    yield announced(doubtful, again)
    async with aclosing(run_trials(fleet, again, progress)) as more:
        async for record in more:
            yield record


def _planned(request: BenchRequest, plan: Schedule) -> Event:
    trials = len(plan.trials) + len(plan.collectives)
    data = {"suite": request.name, "trials": trials, "seconds": round(plan.seconds, 1)}
    message = f"{request.name}: {trials} {'trial' if trials == 1 else 'trials'}, about {plan.seconds:.0f} s"
    return Event(name="bench", subject=request.name, message=message, data=data)
