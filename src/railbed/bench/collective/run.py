"""railbed's own collective benchmark: all nodes in one job of the launcher, with proof that it was one job.

It has the ranks of the job, and the records that their messages become.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from railbed.bench.collective.spec import CollectiveSpec, Operation, bus_factor
from railbed.bench.pace import Pace
from railbed.bench.schedule import collective_seconds
from railbed.bench.suite import Step
from railbed.bench.trials import MEASURED, WHY
from railbed.errors import DeviceError, OnlyRecorded
from railbed.fleet import Fleet
from railbed.launch.fabric import NodeFabric, fabric_of, without_rdma
from railbed.launch.job import RankStart, rank_specs, rank_starts
from railbed.launch.messages import Message
from railbed.launch.placement import Deployment, Placement, rank_address, ranks_by_default, rendezvous_port
from railbed.launch.supervise import StartRefused, Supervisor
from railbed.model import events
from railbed.model.cluster import Cluster, Node
from railbed.model.events import GenerationDone, GenerationFailed, GenerationStarted, NodeUp, TrialStarted
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.model.text import plural
from railbed.parsing.text import quote_path
from railbed.transport.base import Command

FUNCTION = "railbed.bench.collective.worker.loop:run"
ONE_JOB = "bench_one_job"
WHY_ONE_JOB = "Ranks that never joined each other look fast: each of them measured itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """What a rank reported before it ended."""

    sentence: str
    hint: str
    missing: bool
    """A Python package is not installed on its node."""


@dataclass
class CollectiveJob:
    """A job of a single generation: with other nodes it would measure something else."""

    run: str
    engine: str
    operations: tuple[Operation, ...]
    ranks: dict[int, str] = field(default_factory=dict)
    """The node of each rank."""
    errors: dict[int, RankError] = field(default_factory=dict)
    preload: Sequence[str] = ()
    advice: str = ""
    may_regroup: bool = False
    _numbers: dict[int, int] = field(default_factory=dict)
    _received: dict[int, list[int]] = field(default_factory=dict)
    """For each rank, the random numbers of all ranks, as a collective delivered them."""
    _version: str = ""
    _path: str = ""
    """The engine and its network, as the ranks reported them."""

    def generation(self, number: int, placements: Sequence[Placement], port: int) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks."""
        specs = [
            CollectiveSpec(**spec.common(), engine=self.engine, operations=self.operations)
            for spec in rank_specs(self.run, number, placements, port)
        ]
        self.ranks = {spec.rank: spec.node for spec in specs}
        return rank_starts(FUNCTION, specs, placements)

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Return the records of a message."""
        match message:
            case {"kind": "joined", "own": int(own), "seen": list(received)}:
                self._numbers[rank], self._received[rank] = own, received
                self.engine, self._version = str(message.get("engine")), str(message.get("version"))
                self._path = str(message.get("path"))
                return [self._proof()] if len(self._numbers) == len(self.ranks) else []
            case {"kind": "result", "operation": str(name), "size": int(size), "seconds": float(seconds)}:
                return list(self._measurements(name, size, seconds, message))
            case {"kind": "skipped", "operation": str(name), "sentence": str(sentence)} if rank == 0:
                return [not_measured("cluster", Verdict.SKIPPED, name, sentence)]
            case {"kind": "intrusion", "sentence": str(sentence)}:
                return [events.Intrusion(subject=node, message=sentence, address=message["address"])]
            case {"kind": "error", "sentence": str(sentence)}:
                hint, missing = str(message.get("hint") or ""), bool(message.get("missing"))
                self.errors[rank] = RankError(sentence=f"{node}: {sentence}", hint=hint, missing=missing)
        return []

    def _proof(self) -> Finding:
        """Judge whether all ranks were in one job: each received the random number of every other."""
        numbers = [self._numbers[rank] for rank in sorted(self._numbers)]
        apart = [rank for rank, received in self._received.items() if received != numbers]
        nodes = len(set(self.ranks.values()))
        observed = (
            f"{self.ranks[apart[0]]} (rank {apart[0]}) did not receive the numbers of all others"
            if apart
            else f"{plural(len(numbers), 'rank')} on {plural(nodes, 'node')} received each other's random numbers"
        )
        return Finding(
            check=ONE_JOB,
            subject="cluster",
            verdict=Verdict.FAIL if apart else Verdict.OK,
            expected=f"{plural(len(self.ranks), 'rank')} in one job",
            observed=observed,
            why=WHY_ONE_JOB,
        )

    def _measurements(self, name: str, size: int, seconds: float, message: Message) -> Iterator[Measurement]:
        ranks = len(self.ranks)
        labels: dict[str, str | int] = {
            "tool": "railbed",
            "test": name,
            "version": self._version,
            "engine": self.engine,
            "over": self._path,
            "size": size,
            "ranks": ranks,
            "nodes": len(set(self.ranks.values())),
            "iterations": int(message.get("iterations", 1)),
            "repeat": int(message.get("repeat", 1)),
        }
        algorithm = size / seconds * 1e-9
        bus = algorithm * bus_factor(name, ranks)
        yield Measurement(name="collective_time", value=seconds * 1e6, unit="us", labels=labels)
        yield Measurement(name="algorithm_bandwidth", value=algorithm, unit="GB/s", labels=labels)
        yield Measurement(name="bus_bandwidth", value=bus, unit="GB/s", labels=labels)


def not_measured(subject: str, verdict: Verdict, what: str, observed: str, remedy: str = "") -> Finding:
    """Return the finding for something that could not be measured."""
    expected = f"a measurement of {what}"
    return Finding(
        check=MEASURED, subject=subject, verdict=verdict, expected=expected, observed=observed, why=WHY, remedy=remedy
    )


COLLECTIVES = "collectives"
DEFAULT_SIZES = (8, 2**16, 2**20, 2**24)
LOCAL_RANKS = 2


async def collect(
    cluster: Cluster,
    fleet: Fleet,
    steps: Sequence[Step],
    facts: Mapping[str, DeviceFacts],
    *,
    leave_out: Collection[str] = (),
    pace: Pace,
) -> AsyncGenerator[Record, None]:
    """Measure collectives; the steps of one engine share a job, because loading torch takes longer than measuring."""
    fabric = fabric_of(cluster, facts)
    ranks = {
        name: _ranks_on(node)
        for name, node in cluster.nodes.items()
        if name not in leave_out and rank_address(node) is not None
    }
    if steps and sum(ranks.values()) < 2:
        observed = "fewer than two ranks have an address on a rail"
        yield not_measured("cluster", Verdict.SKIPPED, COLLECTIVES, observed)
        return
    for engine in dict.fromkeys(step.engine for step in steps):
        own = [step for step in steps if step.engine == engine]
        pending = list(own)
        yield _begin(pending.pop(0), pace)
        try:
            async with aclosing(_run_job(cluster, fleet, ranks, fabric, own)) as records:
                async for record in records:
                    if pending and isinstance(record, Measurement) and record.labels["test"] == pending[0].test:
                        yield _begin(pending.pop(0), pace)
                    yield record
        except OnlyRecorded:
            observed = "a recording cannot run a job over all nodes"
            yield not_measured("cluster", Verdict.SKIPPED, COLLECTIVES, observed)
            return


def _ranks_on(node: Node) -> int:
    """Return how many ranks a node gets; a cluster of only this machine needs two for a collective."""
    return ranks_by_default(node) if node.ports else max(LOCAL_RANKS, ranks_by_default(node))


def _begin(step: Step, pace: Pace) -> Event:
    """Return the event for the start of an operation; the first of a job includes the start of its ranks."""
    seconds = collective_seconds(step)
    return pace.begin(TrialStarted(subject="all nodes", message=step.test, seconds=seconds), seconds)


async def _run_job(
    cluster: Cluster, fleet: Fleet, ranks: Mapping[str, int], fabric: Mapping[str, NodeFabric], steps: Sequence[Step]
) -> AsyncGenerator[Record, None]:
    """Measure the steps of one engine in one job."""
    engine = steps[0].engine
    if engine == "mpi" and (lacking := without_rdma(cluster, fabric)):
        why, remedy = fabric[lacking].obstacle, fabric[lacking].remedy
        yield not_measured(lacking, Verdict.FAIL, f"{COLLECTIVES} over mpi", why, remedy)
        return
    run = f"bench-{secrets.token_hex(4)}"
    deployment = Deployment(cluster, ranks, folder=f"bench/{run}")
    shipped = await deployment.ship(fleet)
    for node, error in shipped.failed.items():
        why = f"files cannot be copied there: {error.message}"
        yield not_measured(node, Verdict.UNKNOWN, COLLECTIVES, why, error.hint)
    placements = deployment.placements(fabric)
    if shipped.failed and sum(placement.ranks for placement in placements) < 2:
        return
    job = CollectiveJob(run, engine, tuple(map(_operation, steps)))
    port = rendezvous_port(cluster)
    try:
        async with aclosing(_supervise(fleet, job, placements, port)) as records:
            async for record in records:
                yield record
    finally:
        await _clear(fleet, placements)


async def _supervise(
    fleet: Fleet, job: CollectiveJob, placements: Sequence[Placement], port: int
) -> AsyncGenerator[Record, None]:
    """Run the job for one generation."""
    supervisor = Supervisor(fleet, job, placements, len(placements), port=port)
    try:
        async with aclosing(supervisor.run()) as records:
            async for record in records:
                if isinstance(record, GenerationFailed):
                    yield _describe_failure(job, record)
                    return
                if not isinstance(record, GenerationDone | GenerationStarted | NodeUp):
                    yield record
    except StartRefused as refusal:
        yield not_measured("cluster", Verdict.FAIL, COLLECTIVES, refusal.message, refusal.hint)
    except DeviceError as error:
        yield not_measured("cluster", Verdict.UNKNOWN, COLLECTIVES, error.message, error.hint)


def _describe_failure(job: CollectiveJob, restart: Event) -> Finding:
    """Return the finding for a job that failed: a rank's own error explains more than the end of the rank."""
    subject = restart.subject or "cluster"
    error = next(iter(job.errors.values()), None)
    if error is None:
        return not_measured(subject, Verdict.FAIL, COLLECTIVES, restart.message)
    verdict = Verdict.UNKNOWN if error.missing else Verdict.FAIL
    return not_measured(subject, verdict, COLLECTIVES, error.sentence, error.hint)


async def _clear(fleet: Fleet, placements: Sequence[Placement]) -> None:
    """Remove the job's own folders; a node that is gone keeps a few small files."""
    tidy = {place.node: (Command(key="clear", script=_clearing(place.folder)),) for place in placements}
    async with aclosing(fleet.run(tidy)) as answers:
        async for _ in answers:
            pass


def _clearing(folder: str) -> str:
    """Return the command that removes a node's folder, and that of the job once no node has anything in it."""
    return f"rm -rf {quote_path(folder)}; rmdir {quote_path(str(PurePosixPath(folder).parent))} 2>/dev/null || :"


def _operation(step: Step) -> Operation:
    sizes = step.sizes or DEFAULT_SIZES
    return Operation(name=step.test, sizes=sizes, seconds=step.seconds / len(sizes), repeats=step.repeats)
