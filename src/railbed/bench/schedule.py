"""From a suite and a site to trials: which calls run at the same time, in which order, and what cannot be measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from railbed.bench.pace import Pair, rounds_of
from railbed.bench.site import BenchSite, PortSite
from railbed.bench.suite import Step, Suite
from railbed.bench.tool import End, Tool, ToolCall, ToolSettings, test_of, tool_of
from railbed.model.record import Verdict

COLLECTIVE_SECONDS = 20.0
"""Approximate start time of a collective job: every node loads torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One call of a trial, with the direction of its data."""

    source: End
    target: End
    call: ToolCall
    forward: bool = True
    """Whether the source comes before the target in the cluster file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Calls that run at the same time."""

    number: int
    step: Step
    tool: Tool
    flows: tuple[Transfer, ...]
    repeat: int = 1
    start_seconds: float = 0.0
    """How long these nodes take to start a program, if they are slow."""

    @property
    def seconds(self) -> float:
        """Roughly how long it takes."""
        test, start = self.step.test, self.start_seconds
        return max(self.tool.expected_seconds(test, flow.call.settings, start) for flow in self.flows)

    @property
    def nodes(self) -> list[str]:
        """The nodes that take part, sorted."""
        return sorted({end.node for flow in self.flows for end in (flow.source, flow.target)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """A step, or part of one, that cannot be measured here."""

    test: str
    subject: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSchedule:
    """Everything that will be measured."""

    trials: tuple[Trial, ...]
    collectives: tuple[Step, ...]
    omitted: tuple[Omitted, ...]

    @property
    def seconds(self) -> float:
        """Roughly how long it takes."""
        return sum(trial.seconds for trial in self.trials) + sum(map(collective_seconds, self.collectives))


def collective_seconds(step: Step) -> float:
    """Return roughly how long a collective takes."""
    return COLLECTIVE_SECONDS + step.seconds * max(1, len(step.sizes))


def make_schedule(suite: Suite, site: BenchSite) -> BenchSchedule:
    """Apply a suite to a site."""
    omitted: list[Omitted] = []
    trials: list[Trial] = []
    collectives = tuple(step for step in suite.steps if step.is_collective)
    for step in suite.steps:
        if step.is_collective:
            continue
        tool = tool_of()[step.test]
        rounds = _on_nodes(step, site, omitted) if tool.scope == "node" else _between_nodes(step, site, omitted)
        for flows in rounds:
            trials += [
                Trial(
                    number=0,
                    step=step,
                    tool=tool,
                    flows=tuple(flows),
                    repeat=repeat,
                    start_seconds=site.start_seconds,
                )
                for repeat in range(1, step.repeats + 1)
            ]
    numbered = tuple(replace(trial, number=number) for number, trial in enumerate(trials, 1))
    return BenchSchedule(trials=numbered, collectives=collectives, omitted=tuple(dict.fromkeys(omitted)))


def _on_nodes(step: Step, site: BenchSite, omitted: list[Omitted]) -> Iterator[list[Transfer]]:
    """Yield the trials of a test that needs no peer: one node at a time."""
    needs_gpu = tool_of()[step.test].name == "nccl_tests"
    for node in site.cluster.nodes:
        if node in site.failed:
            continue
        if needs_gpu and not site.gpus.get(node):
            omitted.append(Omitted(test=step.test, subject=node, verdict=Verdict.SKIPPED, reason="no GPU"))
            continue
        end = End(node=node)
        for size in step.sizes or (None,):
            settings = _settings(step, size, site, end)
            yield [
                Transfer(
                    source=end, target=end, call=ToolCall(test=step.test, client=end, server=end, settings=settings)
                )
            ]


def _between_nodes(step: Step, site: BenchSite, omitted: list[Omitted]) -> Iterator[list[Transfer]]:
    """Yield the trials of a test between nodes."""
    if not any(len(site.on(rail)) > 1 for rail in site.cluster.rails):
        omitted.append(_inapplicable(step, "no two nodes share a rail"))
        return
    usable = {rail: _usable_ports(step, rail, site, omitted) for rail in site.cluster.rails}
    groups = [list(usable)] if step.rails == "together" else [[rail] for rail in usable]
    if step.rails == "together" and len(usable) < 2:
        omitted.append(_inapplicable(step, "there is only one rail"))
        return
    for rails in groups:
        names = [name for name in site.cluster.nodes if all(name in usable[rail] for rail in rails)]
        for pairs in rounds_of(step.pattern, names, step.direction):
            for size in step.sizes or (None,):
                yield [_flow(step, size, site, usable[rail], pair) for pair in pairs for rail in rails]


def _inapplicable(step: Step, reason: str) -> Omitted:
    """Return a step that does not apply to this cluster."""
    return Omitted(test=step.test, subject="cluster", verdict=Verdict.SKIPPED, reason=reason)


def _usable_ports(step: Step, rail: str, site: BenchSite, omitted: list[Omitted]) -> dict[str, PortSite]:
    """Return the ports of a rail that can take part, by node; add the others to `omitted`."""
    test = test_of(step.test)
    usable: dict[str, PortSite] = {}
    for port in site.on(rail):
        verdict, reason = Verdict.OK, ""
        if port.end.node in site.failed:
            continue  # already reported as unreachable
        if test.rdma and port.no_rdma:
            verdict, reason = Verdict.SKIPPED if port.end.rdma is None else Verdict.UNKNOWN, port.no_rdma
        elif step.memory == "gpu" and port.end.gpu is None:
            verdict, reason = Verdict.SKIPPED, "no GPU"
        if reason:
            omitted.append(Omitted(test=step.test, subject=port.end.name, verdict=verdict, reason=reason))
        else:
            usable[port.end.node] = port
    return usable


def _flow(step: Step, size: int | None, site: BenchSite, ports: dict[str, PortSite], pair: Pair) -> Transfer:
    source, target = ports[pair[0]], ports[pair[1]]
    client, server = (target, source) if test_of(step.test).pulls else (source, target)
    order = list(site.cluster.nodes)
    settings = _settings(step, size, site, source.end)
    call = ToolCall(test=step.test, client=client.end, server=server.end, settings=settings)
    forward = order.index(pair[0]) < order.index(pair[1])
    return Transfer(source=source.end, target=target.end, call=call, forward=forward)


def _settings(step: Step, size: int | None, site: BenchSite, end: End) -> ToolSettings:
    test = test_of(step.test)
    is_marked = test.rdma and step.marked and not end.roce_v1
    return ToolSettings(
        size=size or test.size,
        seconds=step.seconds,
        samples=step.samples,
        streams=step.streams,
        both=step.direction == "both",
        memory=step.memory,
        traffic_class=site.cluster.policy.traffic_class if is_marked else None,
        path=step.path or site.cluster.training.workdir,
        file_bytes=step.file,
    )


def free_ports(first: int, count: int, used: Sequence[frozenset[int]], after: int) -> list[int]:
    """Return unused ports, continuing after the last one handed out and wrapping around."""
    taken = frozenset().union(*used)
    span = min(2000, 65536 - first)
    candidates = [first + (after + offset) % span for offset in range(span)]
    return [port for port in candidates if port not in taken][:count]
