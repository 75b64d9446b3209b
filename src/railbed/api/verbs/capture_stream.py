"""The stream that `--with` sends while packets are recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from railbed.capture.run import CaptureRequest
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Record, Verdict

if TYPE_CHECKING:
    from railbed.bench.suite import Suite

SECONDS = 2.0
Stream = Callable[[Fleet], AsyncGenerator[Record, None]]
VERB, NAME = "bench", "stream"


def choose_stream(text: str | None, cluster: Cluster, recorded: CaptureRequest) -> Stream | None:
    """Return the stream for `bench` or `bench:SUITE`, between what is recorded; None if none is wanted."""
    if text is None:
        return None
    verb, _, suite = text.partition(":")
    if verb != VERB:
        raise UsageError(f"there is no stream {text!r}", hint="--with bench, or --with bench:SUITE for another suite")
    # Imported here because bench is slow to load.
    from railbed.bench import suites
    from railbed.bench.run import BenchRequest, bench

    part = _part(cluster, recorded)
    request = BenchRequest(name=suite or NAME, suite=suites.load(suite) if suite else _suite(len(part.nodes)))
    _refuse_without_rdma(part, request.suite, text)

    def send(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _without_verdicts(bench(part, fleet.only({*part.nodes, *part.switches}), request))

    return send


def _refuse_without_rdma(part: Cluster, suite: Suite, option: str) -> None:
    """Refuse a stream of RDMA alone that no two of the recorded nodes can send."""
    from railbed.bench.tool import test_of

    if not all(not step.is_collective and test_of(step.test).rdma for step in suite.steps):
        return
    able = [(node, port.rail) for node, port in part.ports() if port.rdma]
    if not able:
        lacking = "the cluster file names no RDMA device (`rdma:`) of the ports to record"
    elif all(len({node for node, own in able if own == rail}) < 2 for rail in part.rails):
        lacking = "no two of the nodes to record have an RDMA device on the same rail"
    else:
        return
    raise UsageError(
        f"--with {option} cannot send RDMA: {lacking}",
        hint="without --with, it records what others send (--for SECONDS); --with bench:tcp sends TCP",
    )


def _suite(nodes: int) -> Suite:
    """Return a short stream from every node on every rail; two nodes take turns, since both ways is another load."""
    from railbed.bench.suite import Step, Suite

    pattern, direction = ("ring", "one") if nodes > 2 else ("pair", "each")
    step = Step.model_validate({"test": "ib_write_bw", "pattern": pattern, "direction": direction, "seconds": SECONDS})
    return Suite(description="a short stream from every node on every rail", steps=(step,))


def _part(cluster: Cluster, recorded: CaptureRequest) -> Cluster:
    """Return the cluster with only the nodes and rails that are recorded."""
    rails = {name: rail for name, rail in cluster.rails.items() if name in (recorded.rails or cluster.rails)}
    nodes = {
        name: node.model_copy(update={"ports": tuple(port for port in node.ports if port.rail in rails)})
        for name, node in cluster.nodes.items()
        if name in (recorded.nodes or cluster.nodes)
    }
    return cluster.model_copy(update={"rails": rails, "nodes": nodes})


async def _without_verdicts(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """Pass on what was sent and measured; bench's verdicts are about an undisturbed network, which this is not."""
    from railbed.bench.trials import MEASURED

    async with aclosing(records):
        async for record in records:
            if not isinstance(record, Finding):
                yield record
            elif record.check == MEASURED and record.verdict in (Verdict.UNKNOWN, Verdict.SKIPPED):
                yield events.Notice(subject=record.subject, message=f"sends no stream: {record.observed}")
