"""The verb: choose how to record each port, record all together, then read and judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from railbed.capture.analysis.context import Context
from railbed.capture.methods import PROBES, Method, NoMethod, choose_method, software_ports
from railbed.capture.read import read_and_judge, source_of
from railbed.capture.record import Recorded, record
from railbed.capture.recording import PortPlan, RecordingLimits, RecordOrder
from railbed.errors import DeviceError, ToolMissing, UsageError
from railbed.fleet import Fleet, survey
from railbed.fleet.change import change_nodes_temporarily
from railbed.model import events
from railbed.model.cluster import Cluster, Port
from railbed.model.fix import Fix
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Record, Verdict
from railbed.model.text import plural

HOLDER = "a capture"
RULE = "captured"
"""The name of findings about ports whose packets are missing."""
WHY = "What was not recorded cannot be judged: a loss or a missing mark on this port would go unnoticed."


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """What to record."""

    nodes: Sequence[str] = ()
    """Empty for all."""
    rails: Sequence[str] = ()
    """Empty for all."""
    limits: RecordingLimits = field(default_factory=RecordingLimits)
    export: Path | None = None
    """The file to write all packets to."""


async def capture(
    cluster: Cluster, fleet: Fleet, request: CaptureRequest, folder: Path, stop: asyncio.Event
) -> AsyncGenerator[Record, None]:
    """Record packets into a folder until the time is up or `stop` is set, then read and judge them."""
    ports = _ports(cluster, request)
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(_read(cluster, fleet, {node for node, _ in ports}, facts)) as emitted:
        async for event in emitted:
            yield event
    methods = {
        (node, port): choose_method(node, port, facts[node]) for node, port in ports if not _has_failed(facts, node)
    }
    _refuse_without_tcpdump(methods)
    for finding in _not_recorded(ports, facts, methods):
        yield finding
    plans = [PortPlan(node=node, port=port, method=method) for (node, port), method in _possible(methods)]
    if not plans:
        raise DeviceError("no port can be recorded", hint="the findings above say why, and what to do instead")
    for plan in plans:
        yield _method_event(plan)
    recorded = Recorded()
    order = RecordOrder(plans=plans, limits=request.limits, folder=folder)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(change_nodes_temporarily(fleet, _fixes(plans), HOLDER))
        recording = record(cluster, fleet, order, stop, recorded)
        async for event in await stack.enter_async_context(aclosing(recording)):
            yield event
    for finding in _report_losses(plans, recorded):
        yield finding
    # A tcpdump that is killed may not even have written the header of its file.
    filled = [result for result in recorded.ports if result.bytes]
    context = Context.of(cluster, software_ports(ports, facts))
    sources = [source_of(result, f"{folder.name}/{result.plan.node}/{result.path.name}") for result in filled]
    async with aclosing(read_and_judge(sources, context, request.export)) as records:
        async for judged in records:
            yield judged


def _ports(cluster: Cluster, request: CaptureRequest) -> list[tuple[str, Port]]:
    """Return the ports to record; refuse names that the cluster does not have."""
    choices = (("node", request.nodes, cluster.nodes), ("rail", request.rails, cluster.rails))
    for kind, wanted, names in choices if any(cluster.ports()) else ():
        for name in wanted:
            if name not in names:
                raise UsageError(f"the cluster has no {kind} {name!r}", hint=f"choose from: {', '.join(names)}")
    ports = [
        (node, port)
        for node, port in cluster.ports()
        if node in (request.nodes or cluster.nodes) and port.rail in (request.rails or cluster.rails)
    ]
    if not ports:
        raise UsageError(
            "there is no port to record", hint="name a cluster file with ports (-c FILE), or read files with --from"
        )
    return ports


async def _read(
    cluster: Cluster, fleet: Fleet, nodes: set[str], facts: dict[str, DeviceFacts]
) -> AsyncGenerator[Event, None]:
    """Read the facts that decide how to record."""
    message = f"reading {plural(len(nodes), 'node')}"
    yield events.ReadingStarted(message=message, devices=len(nodes), names=sorted(nodes))
    async with aclosing(survey(fleet, cluster, PROBES, only=nodes)) as answers:
        async for answer in answers:
            facts[answer.device] = answer
            text = answer.failure.reason if answer.failure else plural(len(answer.readings), "probe")
            yield events.DeviceRead(subject=answer.device, message=text, ok=answer.failure is None)


def _has_failed(facts: Mapping[str, DeviceFacts], node: str) -> bool:
    return node not in facts or facts[node].failure is not None


def _refuse_without_tcpdump(methods: Mapping[tuple[str, Port], Method | NoMethod]) -> None:
    """Refuse before anything starts if tcpdump is missing anywhere."""
    missing = {
        node: method for (node, _), method in methods.items() if isinstance(method, NoMethod) if method.no_tcpdump
    }
    if missing:
        reason = next(iter(missing.values())).why
        raise ToolMissing(
            f"tcpdump cannot be used on {', '.join(missing)}: {reason}",
            hint="`railbed configure --rule tools_installed --apply` installs it; or leave the node out (--nodes)",
        )


def _possible(
    methods: Mapping[tuple[str, Port], Method | NoMethod],
) -> Iterator[tuple[tuple[str, Port], Method]]:
    return ((key, method) for key, method in methods.items() if isinstance(method, Method))


def _not_recorded(
    ports: Sequence[tuple[str, Port]],
    facts: Mapping[str, DeviceFacts],
    methods: Mapping[tuple[str, Port], Method | NoMethod],
) -> Iterator[Finding]:
    """Yield a finding for each port that cannot be recorded."""
    for node, port in ports:
        method = methods.get((node, port))
        if isinstance(method, NoMethod):
            yield _finding(f"{node}/{port.netdev}", method.why, method.remedy)
        elif method is None:
            failure = facts[node].failure if node in facts else None
            reason = failure.reason if failure else "it was not read"
            yield _finding(f"{node}/{port.netdev}", reason, failure.remedy if failure else "")


def _report_losses(plans: Sequence[PortPlan], recorded: Recorded) -> Iterator[Finding]:
    """Yield a finding for each port whose recording is missing or ended early."""
    fetched = {result.plan.subject: result for result in recorded.ports}
    for plan in plans:
        result = fetched.get(plan.subject)
        if result is None:
            reason = recorded.lost.get(plan.node, "nothing was sent")
            yield _finding(plan.subject, f"no packets: {reason}", "capture again")
        elif result.reason:
            yield replace(
                _finding(plan.subject, f"recording ended early: {result.reason}", "capture again"), verdict=Verdict.WARN
            )


def _finding(subject: str, observed: str, remedy: str) -> Finding:
    return Finding(
        check=RULE,
        subject=subject,
        verdict=Verdict.UNKNOWN,
        expected="its packets recorded",
        observed=observed,
        why=WHY,
        remedy=remedy,
    )


def _method_event(plan: PortPlan) -> Event:
    method = plan.method
    message = f"recorded on {method.source}: {method.why}"
    return events.CaptureMethod(
        subject=plan.subject,
        message=f"{message}; {method.cost}" if method.cost else message,
        method=method.name,
        source=method.source,
        cost=method.cost or None,
    )


def _fixes(plans: Sequence[PortPlan]) -> list[Fix]:
    """Return one change for each node that needs any."""
    merged: dict[str, Fix] = {}
    for fix in (plan.method.fix for plan in plans):
        if fix is not None:
            before = merged.get(fix.device)
            merged[fix.device] = (
                replace(before, apply=before.apply + fix.apply, undo=before.undo + fix.undo) if before else fix
            )
    return list(merged.values())
