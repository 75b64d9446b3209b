"""Run trials one after the other, and report their numbers; nodes that have stopped answering are skipped.

Records are measurements with the labels that identify them, and findings for what is missing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from railbed.bench.exchange import Assignment, Measured, NotMeasured, run_together
from railbed.bench.pace import Pace
from railbed.bench.sample_times import SampleTimes
from railbed.bench.schedule import Omitted, Transfer, Trial, free_ports
from railbed.bench.site import BenchSite
from railbed.bench.tool import FEW_SAMPLES
from railbed.fleet import Fleet
from railbed.fleet.change import NotUndone
from railbed.model.events import TrialStarted
from railbed.model.record import Finding, Measurement, Record, Verdict

MEASURED = "bench_measured"
WHY = "A link that was not measured may be the one that slows down all the others."


def measurements(trial: Trial, flow: Transfer, measured: Measured) -> Iterator[Measurement]:
    """Yield the numbers of a flow."""
    labels = labels_of(trial, flow, measured)
    for value in measured.reading.values:
        own = dict(value.labels)
        direction = own.pop("direction", None)
        ends = _reverse(labels) if direction == "backward" else labels
        yield Measurement(name=value.name, value=value.value, unit=value.unit, labels={**ends, **own})
    if count := len(measured.reading.samples):
        yield Measurement(name="samples", value=count, unit="1", labels=labels)
    sides = (("client", measured.client), ("server", measured.server))
    for side, wrapped in sides:
        if wrapped is None or wrapped.cpu_seconds is None:
            continue
        node = getattr(flow.call, side).node
        yield Measurement(name="cpu_seconds", value=wrapped.cpu_seconds, unit="s", labels={**labels, "node": node})
        moved = sum(value.value for value in measured.reading.values if value.name == "bandwidth") / 8
        if moved > 0 and len(trial.flows) == 1:
            cost = wrapped.cpu_seconds / (moved * flow.call.settings.seconds)
            yield Measurement(name="cpu_seconds_per_gb", value=cost, unit="s/GB", labels={**labels, "node": node})


def labels_of(trial: Trial, flow: Transfer, measured: Measured | None = None) -> dict[str, str | int]:
    """Return the labels that identify a measurement of a flow."""
    settings = flow.call.settings
    labels: dict[str, str | int] = {
        "tool": trial.tool.name,
        "test": trial.step.test,
        "trial": trial.number,
        "repeat": trial.repeat,
    }
    version = measured and (measured.reading.version or measured.client.version)
    if version:
        labels["version"] = version.replace("Version:", trial.tool.name)
    if settings.size is not None:
        labels["size"] = settings.size
    if trial.tool.scope == "node":
        return {**labels, "node": flow.source.node}
    first, second = (flow.source, flow.target) if flow.forward else (flow.target, flow.source)
    labels |= {
        "pattern": trial.step.pattern if trial.step.rails == "each" else f"{trial.step.pattern}, all rails",
        "pair": f"{first.node}-{second.node}",
        "direction": "both" if settings.both else "forward" if flow.forward else "backward",
        "from": flow.source.node,
        "to": flow.target.node,
        "rail": flow.source.rail,
        "streams": settings.streams,
        "memory": settings.memory,
    }
    if settings.traffic_class is not None:
        labels["traffic_class"] = settings.traffic_class
    return labels


def _reverse(labels: dict[str, str | int]) -> dict[str, str | int]:
    """Return the labels of the opposite direction of a bidirectional flow."""
    return {**labels, "from": labels["to"], "to": labels["from"]}


def subject_of(trial: Trial, flow: Transfer) -> str:
    """Return the pair, or the node, that a finding about a flow is about."""
    if trial.tool.scope == "node":
        return flow.source.node
    return f"{flow.source.node}/{flow.source.netdev} > {flow.target.node}"


def not_measured_finding(trial: Trial, flow: Transfer, failure: NotMeasured) -> Finding:
    """Return the finding for a flow without a number: unknown if its node or program is missing, else failed."""
    unknown = failure.lost or failure.missing or failure.retry
    return Finding(
        check=MEASURED,
        subject=subject_of(trial, flow),
        verdict=Verdict.UNKNOWN if unknown else Verdict.FAIL,
        expected=f"a measurement by {trial.step.test}",
        observed=failure.reason,
        why=WHY,
        remedy=failure.remedy,
        evidence=failure.evidence,
    )


def measured_findings(tests: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding for every pair or node that was measured, naming the tests."""
    for subject, names in tests.items():
        yield Finding(
            check=MEASURED,
            subject=subject,
            verdict=Verdict.OK,
            expected="measurements",
            observed=", ".join(dict.fromkeys(names)),
            why=WHY,
        )


def omitted_finding(omitted: Omitted) -> Finding:
    """Return the finding for a test that cannot run here."""
    return Finding(
        check=MEASURED,
        subject=omitted.subject,
        verdict=omitted.verdict,
        expected=f"a measurement by {omitted.test}",
        observed=f"{omitted.test}: {omitted.reason}" if omitted.verdict is not Verdict.SKIPPED else omitted.reason,
        why=WHY,
    )


def not_undone_finding(node: str, arm: str, reason: str, remedy: str) -> Finding:
    """Return the finding for a node on which an arm's change may still be in effect."""
    return Finding(
        check="bench_undone",
        subject=node,
        verdict=Verdict.FAIL,
        expected=f"as it was before {arm}",
        observed=f"the change may still be in effect: {reason}",
        why="A leftover change distorts later measurements, and the next arm would take it for the original state.",
        remedy=remedy,
    )


def unreachable_finding(node: str, reason: str) -> Finding:
    """Return the finding for a node that does not answer."""
    return Finding(
        check="reachable",
        subject=node,
        verdict=Verdict.FAIL,
        expected="answers",
        observed=reason,
        why="A node that does not answer cannot train, and its links cannot be measured.",
    )


PORTS_APART = 1237
"""How far the first ports of two Slurm jobs with successive numbers are from each other."""
STRIKES = 2
"""A node that fails to answer this often in a row is skipped from then on."""


@dataclass
class BenchProgress:
    """What carries over from one trial to the next."""

    site: BenchSite
    first_port: int
    ports_used: int = 0
    trials: int = 0
    """Trial numbers used so far, for trials outside the schedule."""
    strikes: dict[str, int] = field(default_factory=dict)
    left_changed: NotUndone | None = None
    """Why measuring stopped: an arm's change may still be in effect."""
    reported: set[str] = field(default_factory=set)
    """Nodes already reported as gone."""
    measured: list[Measurement] = field(default_factory=list)
    tests: dict[str, list[str]] = field(default_factory=dict)
    """Names of the tests that succeeded, by pair or node."""
    pace: Pace = field(default_factory=Pace)
    sample_times: SampleTimes = field(default_factory=SampleTimes)

    def __post_init__(self) -> None:
        # Jobs may share nodes: on the same port, a client of one would connect to the server of the other.
        self.ports_used += PORTS_APART * (self.site.cluster.login.slurm_job or 0)

    @property
    def gone(self) -> set[str]:
        """The nodes to skip."""
        return {node for node, strikes in self.strikes.items() if strikes >= STRIKES}

    def gone_node(self, flow: Transfer) -> str:
        """Return the node that rules a flow out; empty if both of its nodes still answer."""
        return next((end.node for end in (flow.source, flow.target) if end.node in self.gone), "")


async def run_trials(fleet: Fleet, trials: Iterable[Trial], progress: BenchProgress) -> AsyncGenerator[Record, None]:
    """Run trials, and yield their measurements or the reasons why there are none."""
    for trial in trials:
        started = TrialStarted(
            subject=", ".join(dict.fromkeys(_paths(trial))),
            message=trial.step.test,
            number=trial.number,
            seconds=round(trial.seconds, 2),
        )
        yield progress.pace.begin(started, trial.seconds)
        for flow, outcome in await _run_trial(fleet, trial, progress):
            if isinstance(outcome, Measured):
                progress.tests.setdefault(subject_of(trial, flow), []).append(trial.step.test)
                for measurement in measurements(trial, flow, outcome):
                    progress.measured.append(measurement)
                    yield measurement
                continue
            yield not_measured_finding(trial, flow, outcome)
            if outcome.node in progress.gone - progress.reported:
                progress.reported.add(outcome.node)
                yield unreachable_finding(outcome.node, outcome.reason)


async def _run_trial(
    fleet: Fleet, trial: Trial, progress: BenchProgress
) -> list[tuple[Transfer, Measured | NotMeasured]]:
    """Run the flows whose nodes still answer; retry failures that may pass."""
    gone = {flow: progress.gone_node(flow) for flow in trial.flows}
    outcomes: dict[Transfer, Measured | NotMeasured] = {
        flow: NotMeasured(reason=f"{node} does not answer", node=node, lost=True) for flow, node in gone.items() if node
    }
    pending = [flow for flow in trial.flows if flow not in outcomes]
    for attempt in count():
        outcomes |= await _measure(fleet, trial, pending, progress, f".{attempt + 1}" if attempt else "")
        for flow in pending:
            _count_strikes(flow, outcomes[flow], progress)
        retries = {flow for flow in pending if _may_retry(outcomes[flow], attempt)}
        if not retries:
            break
        # Flows that share a node compete for its link. Retrying one of them alone would give it the whole link, so
        # those that succeeded are measured again along with it.
        shared = _shares_a_node(pending)
        pending = [flow for flow in pending if flow in retries or (shared and isinstance(outcomes[flow], Measured))]
    return [(flow, outcomes[flow]) for flow in trial.flows]


async def _measure(
    fleet: Fleet, trial: Trial, flows: Sequence[Transfer], progress: BenchProgress, suffix: str
) -> dict[Transfer, Measured | NotMeasured]:
    """Run flows at the same time; if it is unknown how long a sample takes, take a few samples first."""
    known = progress.sample_times.fitting(trial, flows)
    samples = min(trial.step.samples, FEW_SAMPLES) if known is None else known
    outcomes = await _call(fleet, trial, flows, progress, samples=samples, suffix=suffix)
    measured = [flow for flow in flows if isinstance(outcomes[flow], Measured)]
    fitting = progress.sample_times.fitting(trial, measured) if known is None and measured else None
    if fitting is None or fitting <= _count_samples(outcomes):
        return outcomes
    return outcomes | await _call(fleet, trial, measured, progress, samples=fitting, suffix=f"{suffix}.all")


async def _call(
    fleet: Fleet, trial: Trial, flows: Sequence[Transfer], progress: BenchProgress, *, samples: int, suffix: str
) -> dict[Transfer, Measured | NotMeasured]:
    assignments = _assignments(trial, flows, progress, samples=samples, suffix=suffix)
    outcomes = dict(zip(flows, await run_together(fleet, assignments), strict=True))
    for flow, outcome in outcomes.items():
        progress.sample_times.note(trial, flow, outcome)
    return outcomes


def _count_samples(outcomes: Mapping[Transfer, Measured | NotMeasured]) -> int:
    """Return how many samples the flows have that were measured."""
    return min(len(outcome.reading.samples) for outcome in outcomes.values() if isinstance(outcome, Measured))


def _may_retry(outcome: Measured | NotMeasured, attempt: int) -> bool:
    return isinstance(outcome, NotMeasured) and outcome.tries > attempt + 1


def _shares_a_node(flows: Sequence[Transfer]) -> bool:
    nodes = [node for flow in flows for node in {flow.source.node, flow.target.node}]
    return len(nodes) > len(set(nodes))


def _assignments(
    trial: Trial, flows: Sequence[Transfer], progress: BenchProgress, *, samples: int, suffix: str
) -> list[Assignment]:
    used = [progress.site.used.get(flow.call.server.node, frozenset()) for flow in flows]
    ports = free_ports(progress.first_port, len(flows), used, progress.ports_used)
    progress.ports_used += len(flows)
    return [
        Assignment(
            tool=trial.tool,
            call=replace(flow.call, port=port, settings=replace(flow.call.settings, samples=samples)),
            key=f"{trial.number:04d}.{trial.step.test}.{number}{suffix}",
        )
        for number, (flow, port) in enumerate(zip(flows, ports, strict=True), 1)
    ]


def _count_strikes(flow: Transfer, outcome: Measured | NotMeasured, progress: BenchProgress) -> None:
    if isinstance(outcome, NotMeasured) and outcome.lost:
        progress.strikes[outcome.node] = progress.strikes.get(outcome.node, 0) + 1
    elif isinstance(outcome, Measured):
        for node in (flow.source.node, flow.target.node):
            progress.strikes.pop(node, None)


def _paths(trial: Trial) -> Iterator[str]:
    for flow in trial.flows:
        yield flow.source.node if trial.tool.scope == "node" else f"{flow.source.node} > {flow.target.node}"
