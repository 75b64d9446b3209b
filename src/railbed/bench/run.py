"""The verb: read the ports, schedule the suite, measure trial by trial, and judge."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from railbed.bench.baseline import Baseline
from railbed.bench.book import BENCH_BOOK, BenchView
from railbed.bench.collective.run import collect
from railbed.bench.remeasure import doubtful_paths, extra_trials, remeasure_event
from railbed.bench.rules import bench_baseline, bench_latency, bench_line_rate, bench_outlier
from railbed.bench.schedule import BenchSchedule, collective_seconds, make_schedule
from railbed.bench.site import BenchSite, read_site, site_of
from railbed.bench.suite import Suite
from railbed.bench.trials import BenchProgress, measured_findings, omitted_finding, run_trials, unreachable_finding
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Measurement, Record
from railbed.model.text import plural
from railbed.rules.engine import judge

JUDGED = (bench_line_rate.RULE, bench_latency.RULE, bench_outlier.RULE, bench_baseline.RULE)
"""In the order of their findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What to measure, and what to compare it with."""

    name: str
    suite: Suite
    baseline: Baseline | None = None
    progress: list[BenchProgress] = field(default_factory=list)
    """Empty until measuring begins, then one entry; stored here so that an interrupted run can still be judged."""

    def judge(self) -> Iterator[Finding]:
        """Judge everything measured so far, at the end or after an interruption."""
        for progress in self.progress:
            yield from measured_findings(progress.tests)
            view = BenchView(progress.site, progress.measured, self.baseline)
            yield from judge(BENCH_BOOK, view, JUDGED)


async def bench(cluster: Cluster, fleet: Fleet, request: BenchRequest) -> AsyncGenerator[Record, None]:
    """Measure a suite on a cluster."""
    facts: dict[str, DeviceFacts] = {}
    began, read_seconds = time.monotonic(), 0.0
    async with aclosing(read_site(cluster, fleet, facts)) as read:
        async for event in read:
            if isinstance(event, events.DeviceRead) and event.ok:
                read_seconds = read_seconds or time.monotonic() - began
            yield event
    site = site_of(cluster, facts, read_seconds)
    schedule = make_schedule(request.suite, site)
    for node, reason in site.failed.items():
        yield unreachable_finding(node, reason)
    yield _announcement(request, schedule)
    for omitted in schedule.omitted:
        yield omitted_finding(omitted)
    progress = _start_progress(request, site, schedule)
    async with aclosing(_measure(fleet, schedule, progress)) as records:
        async for record in records:
            yield record
    missing = {*site.failed, *progress.gone}
    collectives = collect(cluster, fleet, schedule.collectives, facts, leave_out=missing, pace=progress.pace)
    async with aclosing(collectives) as records:
        async for record in records:
            if isinstance(record, Measurement):
                progress.measured.append(record)
            yield record
    for finding in request.judge():
        yield finding


def _start_progress(request: BenchRequest, site: BenchSite, schedule: BenchSchedule) -> BenchProgress:
    progress = BenchProgress(site=site, first_port=request.suite.first_port)
    progress.pace.expect((trial.step.test, trial.seconds) for trial in schedule.trials)
    progress.pace.expect((step.test, collective_seconds(step)) for step in schedule.collectives)
    request.progress.append(progress)
    return progress


async def _measure(fleet: Fleet, schedule: BenchSchedule, progress: BenchProgress) -> AsyncGenerator[Record, None]:
    """Run the schedule, then repeat the paths that look slow without an explanation."""
    async with aclosing(run_trials(fleet, schedule.trials, progress)) as records:
        async for record in records:
            yield record
    doubtful = doubtful_paths(progress.measured)
    repeats = extra_trials(schedule, doubtful)
    if not repeats:
        return
    progress.pace.expect((trial.step.test, trial.seconds) for trial in repeats)
    yield remeasure_event(doubtful, repeats)
    async with aclosing(run_trials(fleet, repeats, progress)) as records:
        async for record in records:
            yield record


def _announcement(request: BenchRequest, schedule: BenchSchedule) -> Event:
    trials = len(schedule.trials) + len(schedule.collectives)
    message = f"{request.name}: {plural(trials, 'trial')}, about {schedule.seconds:.0f} s"
    return events.BenchPlanned(
        subject=request.name, message=message, suite=request.name, trials=trials, seconds=round(schedule.seconds, 1)
    )
