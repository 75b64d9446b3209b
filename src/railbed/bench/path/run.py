"""Send a marked and an unmarked stream in each direction of each rail, read all counters around them, and judge.

Nodes are paired, so that every node sends and receives; pairs without a common node send at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from railbed.bench.path.hops import WHY, Direction, judge, nothing_sent
from railbed.bench.path.movement import PROBES, Movement
from railbed.bench.schedule import Transfer, Trial, make_schedule
from railbed.bench.site import BenchSite, read_site, site_of
from railbed.bench.suite import Step, Suite
from railbed.bench.tool import End
from railbed.bench.trials import BenchProgress, omitted_finding, run_trials, unreachable_finding
from railbed.fleet import Fleet, survey
from railbed.model.cabling import cable_of, partner_of
from railbed.model.cluster import Cluster, Port
from railbed.model.reading import DeviceFacts
from railbed.model.record import Finding, Measurement, Record, Verdict

SECONDS = 3.0
SETTLE_SECONDS = 4.0
"""Between two readings of counters that do not show a stream yet: a switch updates its own every few seconds."""
LOOKS = 4
STEP = Step(test="ib_write_bw", pattern="pair", direction="each", seconds=SECONDS)
SUITE = Suite(steps=(STEP.model_copy(update={"marked": False}), STEP))
Pair = tuple[str, str]
Path = tuple[str, str]
"""The sending node, and the receiving node."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of a rail in one direction: the same flows twice, without the mark and with it."""

    unmarked: Trial
    marked: Trial


async def prove_path(cluster: Cluster, fleet: Fleet) -> AsyncGenerator[Record, None]:
    """Follow streams over the rails of a cluster, and yield the verdict of every hop."""
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(read_site(cluster, fleet, facts)) as readings:
        async for event in readings:
            yield event
    site = site_of(cluster, facts)
    for node, reason in site.failed.items():
        yield unreachable_finding(node, reason)
    progress = BenchProgress(site=site, first_port=SUITE.first_port)
    proven = False
    for pairs in rounds(list(cluster.nodes)):
        schedules = [make_schedule(SUITE, _narrow(site, pair)) for pair in pairs]
        for omitted in dict.fromkeys(part for schedule in schedules for part in schedule.omitted):
            yield replace(omitted_finding(omitted), essential=True)
        for streams in streams_of([trial for schedule in schedules for trial in schedule.trials]):
            async with aclosing(_follow(cluster, fleet, streams, progress)) as records:
                async for record in records:
                    proven = proven or (isinstance(record, Finding) and record.check in WHY)
                    yield record
    if not proven:
        yield nothing_sent()


def rounds(nodes: Sequence[str]) -> list[list[Pair]]:
    """Pair the nodes; an odd node is paired with the first, after the others."""
    pairs = [(nodes[index], nodes[index + 1]) for index in range(0, len(nodes) - 1, 2)]
    return [pairs, [(nodes[0], nodes[-1])]] if len(nodes) % 2 else [pairs]


def _narrow(site: BenchSite, pair: Pair) -> BenchSite:
    """Return the site reduced to two nodes."""
    cluster = site.cluster.model_copy(update={"nodes": {name: site.cluster.nodes[name] for name in pair}})
    return replace(site, cluster=cluster, ports=tuple(port for port in site.ports if port.end.node in pair))


def streams_of(trials: Iterable[Trial]) -> list[Streams]:
    """Combine the trials of all pairs that run over the same rail in the same direction."""
    together: dict[tuple[str, bool], dict[bool, list[Trial]]] = {}
    for trial in trials:
        (flow,) = trial.flows
        same = together.setdefault((flow.source.rail, flow.forward), {False: [], True: []})
        same[trial.step.marked].append(trial)
    return [
        Streams(*(_join(group[marked], number) for marked in (False, True)))
        for number, group in enumerate(together.values(), 1)
    ]


def _join(trials: Sequence[Trial], number: int) -> Trial:
    """Return one trial with the flows of several."""
    marked = trials[0].step.marked
    return replace(
        trials[0], number=2 * number - (not marked), flows=tuple(flow for trial in trials for flow in trial.flows)
    )


async def _follow(
    cluster: Cluster, fleet: Fleet, streams: Streams, progress: BenchProgress
) -> AsyncGenerator[Record, None]:
    """Send both streams, and judge every hop of every flow that was measured both times."""
    devices = _devices(cluster, streams.marked.flows)
    snapshots = [await _snapshot(cluster, fleet, devices)]
    measured: list[set[Path]] = []
    for trial in (streams.unmarked, streams.marked):
        paths: set[Path] = set()
        async with aclosing(run_trials(fleet, [trial], progress)) as records:
            async for record in records:
                if isinstance(record, Measurement):
                    paths.add((str(record.labels["from"]), str(record.labels["to"])))
                yield record
        measured.append(paths)
        snapshots.append(await _snapshot(cluster, fleet, devices))
    flows = [
        flow
        for flow in streams.marked.flows
        if all((flow.source.node, flow.target.node) in paths for paths in measured)
    ]
    control = Movement(before=snapshots[0], after=snapshots[1])
    findings: list[Finding] = []
    for look in range(LOOKS):
        if look:
            await asyncio.sleep(SETTLE_SECONDS)
            snapshots[2] = await _snapshot(cluster, fleet, devices)
        stream = Movement(before=snapshots[1], after=snapshots[2])
        findings = [
            finding for flow in flows for finding in judge(_direction(cluster, flow, marked=stream, unmarked=control))
        ]
        if all(finding.verdict is not Verdict.FAIL for finding in findings):
            break
    for finding in findings:
        yield finding


def _devices(cluster: Cluster, flows: Iterable[Transfer]) -> set[str]:
    """Return the nodes of some flows, and the switches between them."""
    ends = [(end.node, _port(cluster, end)) for flow in flows for end in (flow.source, flow.target)]
    cables = [cable_of(cluster, node, port) for node, port in ends]
    return {node for node, _ in ends} | {cable.switch for cable in cables if cable}


async def _snapshot(cluster: Cluster, fleet: Fleet, devices: Collection[str]) -> dict[str, DeviceFacts]:
    """Read the counters of some devices once."""
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(survey(fleet, cluster, PROBES, only=devices)) as answers:
        async for answer in answers:
            facts[answer.device] = answer
    return facts


def _direction(cluster: Cluster, flow: Transfer, *, marked: Movement, unmarked: Movement) -> Direction:
    source, target = _port(cluster, flow.source), _port(cluster, flow.target)
    return Direction(
        source=flow.source.node,
        source_port=source,
        target=flow.target.node,
        target_port=target,
        enters=cable_of(cluster, flow.source.node, source),
        leaves=cable_of(cluster, flow.target.node, target),
        direct=partner_of(cluster, flow.source.node, source) is not None,
        policy=cluster.policy,
        marked=marked,
        unmarked=unmarked,
    )


def _port(cluster: Cluster, end: End) -> Port:
    return next(port for port in cluster.nodes[end.node].ports if port.netdev == end.netdev)
