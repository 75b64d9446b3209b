"""railbed's own collective benchmark: all nodes in one job over the launcher, and the proof that it was one."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from railbed.bench.collective.spec import CollectiveSpec, Operation, bus_factor
from railbed.bench.measure.pace import Pace
from railbed.bench.measure.results import MEASURED, WHY
from railbed.bench.measure.schedule import collective_seconds
from railbed.bench.suite import Step
from railbed.errors import DeviceError, OnlyRecorded
from railbed.fleet import Fleet
from railbed.launch.fabric import NodeFabric, fabric_of, without_rdma
from railbed.launch.files.ship import module_command, own_code, ship
from railbed.launch.job import RankStart, meeting_port, new_secret
from railbed.launch.protocol import Message
from railbed.launch.roster import Member
from railbed.launch.supervise import Supervisor
from railbed.model.cluster import LOCAL_HOST, Cluster, Node
from railbed.model.reading import DeviceFacts
from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.parsing.shell import quote_path
from railbed.transport.base import Command

WORKER = "railbed.bench.collective.worker"
ONE_JOB = "bench_one_job"
DEFAULT_SIZES = (8, 2**16, 2**20, 2**24)
LOCAL_RANKS = 2
WHY_ONE_JOB = "Jobs that never met each other look fast: each measured itself alone."


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where things are on a node."""

    python: str
    code: str
    folder: str
    interface: str
    fabric: NodeFabric


@dataclass
class CollectiveJob:
    """The benchmark, as the launch sees it: one generation, and no second."""

    run: str
    engine: str
    operations: tuple[Operation, ...]
    places: Mapping[str, Place]
    port: int
    ranks: dict[int, str] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)
    seen: dict[int, list[int]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    version: str = ""
    path: str = ""
    """The engine with what it goes over, as the ranks told it."""
    may_regroup: bool = False

    def generation(self, number: int, members: Sequence[Member]) -> Mapping[str, Sequence[RankStart]]:  # noqa: ARG002
        """Return the ranks, numbered in the order of the nodes."""
        self.ranks = dict(enumerate(member.name for member in members for _ in range(member.ranks)))
        first = {node: min(rank for rank, one in self.ranks.items() if one == node) for node in self.ranks.values()}
        secret = new_secret()
        starts: dict[str, list[RankStart]] = {}
        for rank, node in self.ranks.items():
            meeting = (members[0].address, secret)
            starts.setdefault(node, []).append(self._start(rank, rank - first[node], node, meeting))
        return starts

    def _start(self, rank: int, local: int, node: str, meeting: tuple[str, str]) -> RankStart:
        place = self.places[node]
        spec = CollectiveSpec(
            run=self.run,
            engine=self.engine,
            rank=rank,
            world=len(self.ranks),
            local_rank=local,
            node=node,
            no_rdma=place.fabric.obstacle,
            master_address=meeting[0],
            master_port=self.port,
            secret=meeting[1],
            interface=place.interface,
            operations=self.operations,
        )
        command = [place.python, "-m", WORKER, "{job}", "--messages", "{messages}"]
        env = {**place.fabric.environment, "PYTHONPATH": place.code}
        return RankStart(rank=rank, command=command, job=spec.to_json(), env=env)

    def hear(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Return what a rank told, as records."""
        match message:
            case {"kind": "joined", "own": int(own), "seen": list(seen)}:
                self.own[rank], self.seen[rank] = own, seen
                self.engine, self.version = str(message.get("engine")), str(message.get("version"))
                self.path = str(message.get("path"))
                return [self.proof()] if len(self.own) == len(self.ranks) else []
            case {"kind": "result", "operation": str(name), "size": int(size), "seconds": float(seconds)}:
                return list(self._measurements(name, size, seconds, message))
            case {"kind": "skipped", "operation": str(name), "sentence": str(sentence)} if rank == 0:
                return [_finding("cluster", Verdict.SKIPPED, name, sentence)]
            case {"kind": "intrusion", "sentence": str(sentence)}:
                return [Event(name="intrusion", subject=node, message=sentence, data={"address": message["address"]})]
            case {"kind": "error", "sentence": str(sentence)}:
                self.errors[rank] = f"{node}: {sentence}"
        return []

    def proof(self) -> Finding:
        """Judge whether all ranks were in one job: each saw the random number of every other."""
        numbers = [self.own[rank] for rank in sorted(self.own)]
        apart = [rank for rank, seen in self.seen.items() if seen != numbers]
        nodes = len(set(self.ranks.values()))
        observed = (
            f"{self.ranks[apart[0]]} (rank {apart[0]}) did not see all others"
            if apart
            else f"{len(numbers)} ranks on {nodes} nodes saw each other's random numbers"
        )
        return Finding(
            check=ONE_JOB,
            subject="cluster",
            verdict=Verdict.FAIL if apart else Verdict.OK,
            expected=f"{len(self.ranks)} ranks in one job",
            observed=observed,
            why=WHY_ONE_JOB,
        )

    def _measurements(self, name: str, size: int, seconds: float, message: Message) -> Iterator[Measurement]:
        ranks = len(self.ranks)
        labels: dict[str, str | int] = {
            "tool": "railbed",
            "test": name,
            "version": self.version,
            "engine": self.engine,
            "over": self.path,
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


async def collect(
    cluster: Cluster,
    fleet: Fleet,
    steps: Sequence[Step],
    facts: Mapping[str, DeviceFacts],
    *,
    leave_out: Collection[str] = (),
    pace: Pace,
) -> AsyncGenerator[Record, None]:
    """Measure collectives; the steps of one engine share a job, for loading torch takes longer than measuring."""
    fabric = fabric_of(cluster, facts)
    nodes = {name: node for name, node in cluster.nodes.items() if name not in leave_out}
    members = [member for name, node in nodes.items() if (member := _member(name, node))]
    if steps and sum(member.ranks for member in members) < 2:
        yield _finding("cluster", Verdict.SKIPPED, "collectives", "fewer than two ranks have an address on a rail")
        return
    for engine in dict.fromkeys(step.engine for step in steps):
        own = [step for step in steps if step.engine == engine]
        to_come = list(own)
        yield _begun(to_come.pop(0), pace)
        try:
            async with aclosing(_one_job(cluster, fleet, members, fabric, engine, own)) as records:
                async for record in records:
                    if to_come and isinstance(record, Measurement) and record.labels["test"] == to_come[0].test:
                        yield _begun(to_come.pop(0), pace)
                    yield record
        except OnlyRecorded:
            yield _finding("cluster", Verdict.SKIPPED, "collectives", "a recording cannot run a job over all nodes")
            return


def _begun(step: Step, pace: Pace) -> Event:
    """Return the event that an operation is measured; the first of a job includes that its ranks start."""
    seconds = collective_seconds(step)
    data = {"seconds": seconds, **pace.begin(step.test, seconds)}
    return Event(name="trial", subject="all nodes", message=step.test, data=data)


async def _one_job(  # noqa: PLR0917  (all that a job needs)
    cluster: Cluster,
    fleet: Fleet,
    members: Sequence[Member],
    fabric: Mapping[str, NodeFabric],
    engine: str,
    steps: Sequence[Step],
) -> AsyncGenerator[Record, None]:
    if engine == "mpi" and (lacking := without_rdma(cluster, fabric)):
        why, remedy = fabric[lacking].obstacle, fabric[lacking].remedy
        yield _finding(lacking, Verdict.FAIL, "collectives over mpi", why, remedy)
        return
    code, run = own_code(), f"bench-{secrets.token_hex(4)}"
    nodes = {member.name: cluster.nodes[member.name] for member in members}
    shipped = await ship(fleet, nodes, cluster.training.workdir, [code], folder=f"bench/{run}")
    for node, error in shipped.failed.items():
        why = f"files cannot be put there: {error.message}"
        yield _finding(node, Verdict.UNKNOWN, "collectives", why, error.hint)
    places = {
        name: Place(
            python=cluster.nodes[name].python,
            code=f"{base}/{code.name}",
            folder=f"{base}/bench/{run}/{name}",
            interface=_interface(cluster.nodes[name]),
            fabric=fabric[name],
        )
        for name, base in shipped.bases.items()
    }
    job = CollectiveJob(run, engine, tuple(map(_operation, steps)), places, meeting_port(cluster))
    taking_part = [member for member in members if member.name in places]
    if shipped.failed and sum(member.ranks for member in taking_part) < 2:
        return
    agents = {name: _agent(place) for name, place in places.items()}
    supervisor = Supervisor(fleet, job, taking_part, agents, len(taking_part))
    try:
        async with aclosing(supervisor.run()) as records:
            async for record in records:
                if isinstance(record, Event) and record.name == "restart":
                    # A benchmark that goes on with other nodes measures something else.
                    yield _failed(job, record)
                    return
                if not (isinstance(record, Event) and record.name in ("done", "generation", "node_up")):
                    yield record
    except DeviceError as error:
        yield _finding("cluster", Verdict.UNKNOWN, "collectives", error.message)
    finally:
        await _clear(fleet, places)


async def _clear(fleet: Fleet, places: Mapping[str, Place]) -> None:
    """Remove the job's own folders; a node that is gone keeps a few small files."""
    tidy = {node: (Command(key="clear", script=_clearing(place.folder)),) for node, place in places.items()}
    async with aclosing(fleet.run(tidy)) as answers:
        async for _ in answers:
            pass


def _clearing(folder: str) -> str:
    """Return the command that removes a node's folder, and that of the job once no node has anything in it."""
    return f"rm -rf {quote_path(folder)}; rmdir {quote_path(str(PurePosixPath(folder).parent))} 2>/dev/null || :"


def _failed(job: CollectiveJob, restart: Event) -> Finding:
    """Return the finding for a job that broke: what a rank said of itself tells more than that it ended."""
    said = next(iter(job.errors.values()), restart.message)
    missing = "No module named" in said
    remedy = "install torch for the Python that the cluster file names (`python` of the node)" if missing else ""
    verdict = Verdict.UNKNOWN if missing else Verdict.FAIL
    return _finding(restart.subject or "cluster", verdict, "collectives", said, remedy)


def _finding(subject: str, verdict: Verdict, what: str, observed: str, remedy: str = "") -> Finding:
    expected = f"a measurement of {what}"
    return Finding(
        check=MEASURED, subject=subject, verdict=verdict, expected=expected, observed=observed, why=WHY, remedy=remedy
    )


def _operation(step: Step) -> Operation:
    sizes = step.sizes or DEFAULT_SIZES
    return Operation(name=step.test, sizes=sizes, seconds=step.seconds / len(sizes), repeats=step.repeats)


def _member(name: str, node: Node) -> Member | None:
    ranks = max(1, len(node.gpus))
    if node.ports:
        return Member(name=name, address=str(node.ports[0].address), ranks=ranks)
    return Member(name=name, address="127.0.0.1", ranks=max(LOCAL_RANKS, ranks)) if node.host == LOCAL_HOST else None


def _interface(node: Node) -> str:
    return node.ports[0].netdev if node.ports else "lo"


def _agent(place: Place) -> str:
    return module_command(place.python, place.code, "railbed.launch.node.agent", [place.folder])
