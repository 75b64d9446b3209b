"""Trials one after the other: each flow's numbers or why there are none; who does not answer is left out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from railbed.bench.change import NotUndone
from railbed.bench.measure.exchange import Assignment, Measured, NotMeasured, run_together
from railbed.bench.measure.pace import Pace
from railbed.bench.measure.results import measurements, not_measured, subject_of, unreachable
from railbed.bench.measure.schedule import Flow, Trial, free_ports
from railbed.bench.site import BenchSite
from railbed.fleet import Fleet
from railbed.model.record import Event, Measurement, Record

STRIKES = 2
"""A node that could not be reached so often in a row is left out of what is still to be measured."""


@dataclass
class Progress:
    """What is to be known from one trial to the next."""

    site: BenchSite
    first_port: int
    ports_given: int = 0
    trials: int = 0
    """Numbers given out, where a plan does not give them."""
    strikes: dict[str, int] = field(default_factory=dict)
    left_changed: NotUndone | None = None
    """Why nothing more is measured: an arm's change may still be there."""
    told: set[str] = field(default_factory=set)
    """Nodes that a finding says are gone."""
    measured: list[Measurement] = field(default_factory=list)
    tests: dict[str, list[str]] = field(default_factory=dict)
    """What was measured, by pair or node."""
    pace: Pace = field(default_factory=Pace)

    def lost(self, flow: Flow) -> str:
        """Return the node of a flow that is left out."""
        return next((end.node for end in (flow.source, flow.target) if end.node in self.gone), "")

    @property
    def gone(self) -> set[str]:
        """Return the nodes that are left out."""
        return {node for node, strikes in self.strikes.items() if strikes >= STRIKES}


async def run_trials(fleet: Fleet, trials: Iterable[Trial], progress: Progress) -> AsyncGenerator[Record, None]:
    """Run trials and yield what comes of them."""
    for trial in trials:
        yield Event(
            name="trial",
            subject=", ".join(dict.fromkeys(_ways(trial))),
            message=trial.step.test,
            data={
                "number": trial.number,
                "seconds": round(trial.seconds, 2),
                **progress.pace.begin(trial.step.test, trial.seconds),
            },
        )
        for flow, outcome in await _one_trial(fleet, trial, progress):
            if isinstance(outcome, Measured):
                progress.tests.setdefault(subject_of(trial, flow), []).append(trial.step.test)
                for record in measurements(trial, flow, outcome):
                    progress.measured.append(record)
                    yield record
                continue
            yield not_measured(trial, flow, outcome)
            if outcome.node in progress.gone - progress.told:
                progress.told.add(outcome.node)
                yield unreachable(outcome.node, outcome.reason)


async def _one_trial(fleet: Fleet, trial: Trial, progress: Progress) -> list[tuple[Flow, Measured | NotMeasured]]:
    """Run the flows of a trial whose nodes are there; what may do on another try gets one."""
    left_out_nodes = {flow: progress.lost(flow) for flow in trial.flows}
    done: dict[Flow, Measured | NotMeasured] = {
        flow: NotMeasured(reason=f"{node} does not answer", node=node, lost=True)
        for flow, node in left_out_nodes.items()
        if node
    }
    pending = [flow for flow in trial.flows if flow not in done]
    for attempt in count():
        jobs = _jobs(trial, pending, progress, attempt)
        for flow, outcome in zip(pending, await run_together(fleet, jobs), strict=True):
            done[flow] = outcome
            _count_strikes(flow, outcome, progress)
        again = {flow for flow in pending if isinstance(one := done[flow], NotMeasured) and one.tries > attempt + 1}
        if not again:
            break
        # What shares a node was measured against each other: one of them alone would have the link for itself.
        measured = {flow for flow in pending if isinstance(done[flow], Measured)}
        pending = [flow for flow in pending if flow in again or (flow in measured and _shares_a_node(pending))]
    return [(flow, done[flow]) for flow in trial.flows]


def _shares_a_node(flows: Sequence[Flow]) -> bool:
    nodes = [node for flow in flows for node in {flow.source.node, flow.target.node}]
    return len(nodes) > len(set(nodes))


def _jobs(trial: Trial, flows: list[Flow], progress: Progress, attempt: int) -> list[Assignment]:
    used = [progress.site.used.get(flow.call.server.node, frozenset()) for flow in flows]
    ports = free_ports(progress.first_port, len(flows), used, progress.ports_given)
    progress.ports_given += len(flows)
    again = f".{attempt + 1}" if attempt else ""
    return [
        Assignment(
            tool=trial.tool,
            call=replace(flow.call, port=port),
            key=f"{trial.number:04d}.{trial.step.test}.{number}{again}",
        )
        for number, (flow, port) in enumerate(zip(flows, ports, strict=True), 1)
    ]


def _count_strikes(flow: Flow, outcome: Measured | NotMeasured, progress: Progress) -> None:
    if isinstance(outcome, NotMeasured) and outcome.lost:
        progress.strikes[outcome.node] = progress.strikes.get(outcome.node, 0) + 1
    elif isinstance(outcome, Measured):
        for node in (flow.source.node, flow.target.node):
            progress.strikes.pop(node, None)


def _ways(trial: Trial) -> Iterator[str]:
    for flow in trial.flows:
        yield flow.source.node if trial.tool.scope == "node" else f"{flow.source.node} > {flow.target.node}"
