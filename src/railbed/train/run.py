"""The verb: copies files to the nodes, starts the ranks, supervises them, and yields their records."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from railbed.errors import UsageError
from railbed.fleet import Fleet, read_facts
from railbed.launch.fabric import FACTS, NodeFabric, fabric_of, without_rdma
from railbed.launch.files.client import NodeDiskFull
from railbed.launch.files.ship import Parcel, Shipped, parcel
from railbed.launch.job import RankStart
from railbed.launch.messages import Message
from railbed.launch.placement import Deployment, Placement, rank_address, ranks_by_default, rendezvous_port
from railbed.launch.supervise import RETURN_SECONDS, GaveUp, StartRefused, Supervisor
from railbed.model import events
from railbed.model.cluster import Cluster, Node
from railbed.model.events.general import progress
from railbed.model.reading import DeviceFacts
from railbed.model.record import Record
from railbed.model.text import size
from railbed.train.base.folder import read_folder
from railbed.train.capacity.fit import disk_notices
from railbed.train.departure import Departure
from railbed.train.network.ledger import Ledger, must_be_rdma
from railbed.train.progress.records import records_of
from railbed.train.progress.steps import Downtime, IdleTimes, Phases
from railbed.train.ranks import PRELOAD, KnownCheckpoints, TrainingRun, copies_in, ranks_of
from railbed.train.state.resume import EarlierState, resume_point

T = TypeVar("T")
VERIFY = "railbed.train.state.verify"
RECENT_SECONDS = 1.0
"""How long after a checkpoint a restart costs almost nothing."""
ADVICE = "the checkpoints are kept: `railbed train --resume RUN` continues from them"
CLEAN = "`railbed runs --clean` removes files of earlier runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRequest:
    """What the user requested."""

    run: str
    recipe: Mapping[str, Any]
    tokens: Path | None
    """Folder with the tokens; a network load needs none."""
    base: Path | None = None
    """Folder with the model to tune, which is copied to the nodes; None if there is none, or if they have it."""
    prompt: tuple[int, ...] = ()
    ranks: int | None = None
    """Ranks on each node; None means one per GPU, or one on a node without GPUs."""
    minimum: int = 1
    """Nodes that must be left to continue."""
    transport: str = "auto"
    proves: bool = False
    """The run is a test of RDMA: if the cluster file has RDMA, anything else is a failure."""
    resumes: EarlierState | None = None
    """The earlier run to continue from its checkpoints; None starts at step 1."""
    shared: str = ""
    """The run's folder, if all nodes share it: checkpoints are copied there, and any nodes continue from them."""
    departure: Departure | None = None
    """How training is asked to save its state and to leave the nodes."""
    return_seconds: float = RETURN_SECONDS
    """How long to wait for lost nodes when too few are left."""

    @property
    def folder(self) -> str:
        """The folder of the run on nodes, below their working directory."""
        return f"runs/{self.run}"

    def ranks_on(self, node: Node) -> int:
        """Return how many ranks a node gets."""
        return self.ranks or ranks_by_default(node)


class TrainJob:
    """Training, as the supervisor runs it."""

    preload = PRELOAD
    advice = ADVICE

    def __init__(self, run: TrainingRun, checkpoints: KnownCheckpoints, ledger: Ledger) -> None:
        self._run = run
        self._checkpoints = checkpoints
        self._ledger = ledger
        self._last_checkpoint = 0.0
        self._idle = IdleTimes(0)
        self._phases = Phases(0)

    def generation(self, number: int, placements: Sequence[Placement], port: int) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks; they continue from the newest checkpoint that a node has."""
        world = sum(placement.ranks for placement in placements)
        self._idle, self._phases = IdleTimes(world), Phases(world)
        self._ledger.generation([placement.node for placement in placements])
        return ranks_of(self._run, number, placements, self._checkpoints, port)

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Note checkpoints, and return the records of a message."""
        match message:
            case {"kind": "evaluation", "step": int(step)} if rank == 0:  # only its numbers are recorded
                self._checkpoints.evaluated.add(step)
            case {"kind": "perplexity", "when": "before"} if rank == 0:
                self._checkpoints.has_baseline = True
            case {"kind": "checkpoint_copied", "step": int(step)}:
                self._checkpoints.copied = max(step, self._checkpoints.copied or 0)
            case {"kind": "checkpoint", "step": int(step), "hash": str(digest)}:
                self._checkpoints.note(node, step, digest)
                if step < self._run.recipe["steps"]:
                    self._last_checkpoint = time.monotonic()
        derived = [*self._idle.receive(node, rank, message), *self._ledger.receive(node, rank, message)]
        return [*records_of(node, rank, message), *derived, *self._phases.receive(rank, message)]

    @property
    def may_regroup(self) -> bool:
        """Whether a checkpoint was just saved, other than the last one: a good moment."""
        return time.monotonic() - self._last_checkpoint < RECENT_SECONDS


async def train(
    cluster: Cluster, fleet: Fleet, request: TrainRequest, *, known: Mapping[str, DeviceFacts] | None = None
) -> AsyncGenerator[Record, None]:
    """Train on a cluster; facts of nodes that are known are not read again."""
    _require_nodes_of_shares(cluster, request.recipe)
    _require_addresses(cluster)
    tokens = parcel("tokens", {path.name: path for path in request.tokens.iterdir()} if request.tokens else {})
    ranks = {name: request.ranks_on(node) for name, node in cluster.nodes.items()}
    yield progress("reading the files to copy")
    base = await _base_parcel(request)
    parcels = [tokens, base] if base else [tokens]
    deployment = Deployment(cluster, ranks, folder=request.folder, parcels=parcels)
    async with _in_background(read_facts(fleet, cluster, FACTS, known=known, only=cluster.nodes)) as reading:
        async with aclosing(_copy(deployment, fleet, request)) as copying:
            async for record in copying:
                yield record
        shipped = deployment.shipped
        for notice in disk_notices(request.recipe, request.tokens, shipped.free, world=sum(ranks.values())):
            yield notice
        yield progress("reading the network cards of the nodes")
        fabric = fabric_of(cluster, await reading)
    _require_rdma(cluster, request, {name: fabric[name] for name in shipped.bases})
    placements = deployment.placements(fabric)
    checkpoints = KnownCheckpoints()
    if request.resumes:
        yield progress("verifying the checkpoints on the nodes")
        verify = {place.node: place.command(VERIFY, f"{place.folder}/checkpoints") for place in placements}
        copies = copies_in(request.shared) if request.shared else ""
        steps = request.recipe["steps"]
        async for event in resume_point(fleet, verify, checkpoints, request.resumes, steps=steps, copies=copies):
            yield event
    run = _training_run(request, tokens, base)
    ledger = Ledger(cluster, fabric, demanded=must_be_rdma(cluster, request.transport, proves=request.proves))
    job, port, patience = TrainJob(run, checkpoints, ledger), rendezvous_port(cluster), request.return_seconds
    supervisor = Supervisor(fleet, job, placements, request.minimum, port=port, return_seconds=patience)
    departure = request.departure or Departure()
    departure.on_request(lambda: supervisor.write(0, run.request))
    yield progress("starting an agent on each node", waiting=[placement.node for placement in placements])
    async with aclosing(_until_it_leaves(supervisor, departure, request.recipe)) as records:
        async for record in records:
            yield record
    for record in ledger.closing():
        yield record


def _training_run(request: TrainRequest, tokens: Parcel, base: Parcel | None) -> TrainingRun:
    return TrainingRun(
        name=request.run,
        recipe=request.recipe,
        tokens=tokens,
        base=base,
        transport=request.transport,
        prompt=request.prompt,
        shared=request.shared,
        request=f"checkpoint.{secrets.token_hex(4)}" if request.departure else "",
    )


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Yield a task that works meanwhile; it ends with the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _copy(deployment: Deployment, fleet: Fleet, request: TrainRequest) -> AsyncGenerator[Record, None]:
    """Copy everything to the nodes; raise GaveUp if too few of them got it."""
    yield progress(f"copying code and data to the nodes (up to {size(deployment.size)} each)")
    shipped = await deployment.ship(fleet)
    async with aclosing(deployment.pass_on(fleet)) as records:
        async for record in records:
            yield record
    for node, error in shipped.failed.items():
        yield events.NodeLost(subject=node, message=error.message)
    _require_enough(shipped, request)


async def _until_it_leaves(
    supervisor: Supervisor, departure: Departure, recipe: Mapping[str, Any]
) -> AsyncGenerator[Record, None]:
    """Yield the records of all generations, with what restarts cost; end when training has to leave and can."""
    downtime = Downtime()
    async with aclosing(supervisor.run()) as records:
        async for record in records:
            yield record
            for derived in downtime.add_record(record):
                yield derived
            if departure.is_over(record, recipe):
                break
        else:
            return
        # The ranks train on until they are ended: a newer state that they save meanwhile is the one to resume from.
        async with aclosing(supervisor.stop()) as last_records:
            async for record in last_records:
                departure.note(record)
                yield record


async def _base_parcel(request: TrainRequest) -> Parcel | None:
    """Return the model to copy, if there is one; hashing its files takes a while."""
    if request.base is None:
        return None
    return await asyncio.to_thread(parcel, "models", read_folder(request.base).files())


def _require_enough(shipped: Shipped, request: TrainRequest) -> None:
    """Refuse to begin on fewer nodes than are needed to continue."""
    if len(shipped.bases) < request.minimum:
        why = "; ".join(f"{node}: {error.message}" for node, error in shipped.failed.items())
        nodes = len(shipped.bases) + len(shipped.failed)
        raise GaveUp(
            f"{len(shipped.bases)} of {nodes} nodes can train, {request.minimum} are needed ({why})",
            hint=_shipping_hint(shipped),
        )


def _shipping_hint(shipped: Shipped) -> str:
    """Return the first hint of the nodes that could not get their files."""
    error = next((error for error in shipped.failed.values() if error.hint), None)
    if isinstance(error, NodeDiskFull):
        return f"{error.hint}; {CLEAN}"
    return error.hint if error else ""


def _require_rdma(cluster: Cluster, request: TrainRequest, fabric: Mapping[str, NodeFabric]) -> None:
    """Refuse MPI if a node lacks the RDMA that the cluster file lists. If the file lists none, MPI uses TCP."""
    if request.transport == "mpi" and (lacking := without_rdma(cluster, fabric)):
        why = f"{lacking}: {fabric[lacking].obstacle}"
        raise StartRefused(f"mpi was requested and does not work here: {why}", hint=fabric[lacking].remedy)


def _require_nodes_of_shares(cluster: Cluster, recipe: Mapping[str, Any]) -> None:
    """Refuse a recipe that gives a weight to a node that does not exist."""
    shares = recipe.get("shares")
    for name in shares if isinstance(shares, Mapping) else ():
        if name not in cluster.nodes:
            raise UsageError(
                f"the recipe's shares name {name}, which is not a node of this cluster",
                hint=f"its nodes are {', '.join(cluster.nodes)}",
            )


def _require_addresses(cluster: Cluster) -> None:
    """Refuse a cluster where a node's ranks could not be reached; those of a single node meet on it."""
    for name, node in cluster.nodes.items():
        if rank_address(node) is None and len(cluster.nodes) > 1:
            raise UsageError(
                f"{name} has no port on a rail, so its ranks have no address for the others",
                hint="`railbed discover --write` finds its ports, or write `ports:` into the cluster file",
            )
