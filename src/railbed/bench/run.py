"""The verb: read the ports, lay out the suite, measure trial by trial, and judge."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from railbed.bench.account import left_out, measurements, not_measured, subject_of, were_measured
from railbed.bench.baseline import Baseline
from railbed.bench.collect import collect
from railbed.bench.exchange import Job, Measured, NotMeasured, run_together
from railbed.bench.plan import Flow, Plan, Trial, free_ports, make_plan
from railbed.bench.site import PROBES, BenchSite, site_of
from railbed.bench.suite import Suite
from railbed.bench.verdicts import all_verdicts
from railbed.fleet import Fleet, survey
from railbed.model.cluster import Cluster
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Measurement, Record, Verdict

STRIKES = 2
"""A node that could not be reached so often in a row is left out of what is still to be measured."""
TRIES = 2
REACHABLE = "reachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for."""

    name: str
    suite: Suite
    baseline: Baseline | None = None


@dataclass
class _Progress:
    """What is to be known from one trial to the next."""

    site: BenchSite
    first_port: int
    ports_given: int = 0
    strikes: dict[str, int] = field(default_factory=dict)
    measured: list[Measurement] = field(default_factory=list)
    tests: dict[str, list[str]] = field(default_factory=dict)
    """What was measured, by pair or node."""

    def lost(self, flow: Flow) -> str:
        """Return the node of a flow that is left out."""
        nodes = (flow.source.node, flow.target.node)
        return next((node for node in nodes if self.strikes.get(node, 0) >= STRIKES), "")


async def bench(cluster: Cluster, fleet: Fleet, order: Order) -> AsyncGenerator[Record, None]:
    """Measure a suite on a cluster."""
    facts: dict[str, DeviceFacts] = {}
    yield Event(name="reading", message=f"reading {len(fleet.targets)} nodes", data={"devices": len(fleet.targets)})
    async with aclosing(survey(fleet, cluster, [replace(probe, twice=False) for probe in PROBES])) as answers:
        async for told in answers:
            facts[told.device] = told
            message = told.failure.reason if told.failure else f"{len(told.readings)} probes"
            yield Event(name="device_read", subject=told.device, message=message, data={"ok": told.failure is None})
    site = site_of(cluster, facts)
    plan = make_plan(order.suite, site)
    for node, why in site.failed.items():
        yield unreachable(node, why)
    yield _planned(order, plan)
    for omitted in plan.omitted:
        yield left_out(omitted)
    progress = _Progress(site=site, first_port=order.suite.first_port)
    async with aclosing(_all_trials(fleet, plan, progress)) as records:
        async for record in records:
            yield record
    async with aclosing(collect(cluster, fleet, plan.collectives, leave_out={*site.failed, *_gone(progress)})) as more:
        async for record in more:
            if isinstance(record, Measurement):
                progress.measured.append(record)
            yield record
    for finding in were_measured(progress.tests):
        yield finding
    for finding in all_verdicts(site, progress.measured, order.baseline):
        yield finding


def unreachable(node: str, why: str) -> Finding:
    """Return the finding for a node that does not answer."""
    return Finding(
        check=REACHABLE,
        subject=node,
        verdict=Verdict.FAIL,
        expected="answers",
        observed=why,
        why="A node that does not answer trains nothing, and its links are not measured.",
    )


def _planned(order: Order, plan: Plan) -> Event:
    trials = len(plan.trials) + len(plan.collectives)
    data = {"suite": order.name, "trials": trials, "seconds": round(plan.seconds, 1)}
    message = f"{order.name}: {trials} trials, about {plan.seconds:.0f} s"
    return Event(name="bench", subject=order.name, message=message, data=data)


def _gone(progress: _Progress) -> Iterator[str]:
    return (node for node, strikes in progress.strikes.items() if strikes >= STRIKES)


async def _all_trials(fleet: Fleet, plan: Plan, progress: _Progress) -> AsyncGenerator[Record, None]:
    for trial in plan.trials:
        yield Event(
            name="trial",
            subject=", ".join(dict.fromkeys(_ways(trial))),
            message=trial.step.test,
            data={"number": trial.number, "seconds": round(trial.seconds, 2)},
        )
        for flow, outcome in await _one_trial(fleet, trial, progress):
            if isinstance(outcome, Measured):
                progress.tests.setdefault(subject_of(trial, flow), []).append(trial.step.test)
                for record in measurements(trial, flow, outcome):
                    progress.measured.append(record)
                    yield record
                continue
            yield not_measured(trial, flow, outcome)
            if outcome.lost and progress.strikes.get(outcome.node) == STRIKES:
                progress.strikes[outcome.node] += 1  # told of once
                yield unreachable(outcome.node, outcome.reason)


async def _one_trial(fleet: Fleet, trial: Trial, progress: _Progress) -> list[tuple[Flow, Measured | NotMeasured]]:
    """Run the flows of a trial whose nodes are there; a port that turns out to be taken is changed once."""
    left_out_nodes = {flow: progress.lost(flow) for flow in trial.flows}
    done: dict[Flow, Measured | NotMeasured] = {
        flow: NotMeasured(reason=f"{node} does not answer", node=node, lost=True)
        for flow, node in left_out_nodes.items()
        if node
    }
    pending = [flow for flow in trial.flows if flow not in done]
    for attempt in range(TRIES):
        jobs = _jobs(trial, pending, progress, attempt)
        for flow, outcome in zip(pending, await run_together(fleet, jobs), strict=True):
            done[flow] = outcome
            _count_strikes(flow, outcome, progress)
        pending = [flow for flow in pending if isinstance(one := done[flow], NotMeasured) and one.retry]
        if not pending:
            break
    return [(flow, done[flow]) for flow in trial.flows]


def _jobs(trial: Trial, flows: list[Flow], progress: _Progress, attempt: int) -> list[Job]:
    used = [progress.site.used.get(flow.call.server.node, frozenset()) for flow in flows]
    ports = free_ports(progress.first_port, len(flows), used, progress.ports_given)
    progress.ports_given += len(flows)
    again = f".{attempt + 1}" if attempt else ""
    return [
        Job(
            tool=trial.tool,
            call=replace(flow.call, port=port),
            key=f"{trial.number:04d}.{trial.step.test}.{number}{again}",
        )
        for number, (flow, port) in enumerate(zip(flows, ports, strict=True), 1)
    ]


def _count_strikes(flow: Flow, outcome: Measured | NotMeasured, progress: _Progress) -> None:
    if isinstance(outcome, NotMeasured) and outcome.lost:
        progress.strikes[outcome.node] = progress.strikes.get(outcome.node, 0) + 1
    elif isinstance(outcome, Measured):
        for node in (flow.source.node, flow.target.node):
            progress.strikes.pop(node, None)


def _ways(trial: Trial) -> Iterator[str]:
    for flow in trial.flows:
        yield flow.source.node if trial.tool.scope == "node" else f"{flow.source.node} > {flow.target.node}"
