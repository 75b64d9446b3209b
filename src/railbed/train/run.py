"""The verb: put everything on the nodes, start the ranks, keep them going, and tell what they do."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.launch.fabric import NodeFabric, fabric_of, read_facts, without_rdma
from railbed.launch.files.ship import Parcel, Shipped, module_command, own_code, parcel, ship
from railbed.launch.job import RankStart, meeting_port
from railbed.launch.protocol import Message
from railbed.launch.roster import Member
from railbed.launch.supervise import GaveUp, Refused, Supervisor
from railbed.model.amount import size
from railbed.model.cluster import LOCAL_HOST, Cluster, Node
from railbed.model.progress import progress
from railbed.model.record import Event, Record
from railbed.train.capacity.disk import disk_notices
from railbed.train.network.ledger import Ledger, must_be_rdma
from railbed.train.progress.downtime import Downtime
from railbed.train.progress.idle import IdleTimes
from railbed.train.progress.phases import Phases
from railbed.train.progress.records import records_of
from railbed.train.ranks import LOADED_AHEAD, Course, Place, Saved, ranks_of
from railbed.train.state.resume import resume_point

VERIFY = "railbed.train.state.verify"
FRESH_SECONDS = 1.0
"""For so long after a checkpoint, starting anew costs nothing worth telling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for."""

    run: str
    recipe: Mapping[str, Any]
    tokens: Path | None
    """Folder with the tokens; a load for the network needs none."""
    prompt: tuple[int, ...] = ()
    ranks: int | None = None
    """Ranks on each node; None is one for each GPU, and one where there is none."""
    minimum: int = 1
    """Nodes that must be left to go on."""
    transport: str = "auto"
    proves: bool = False
    """It is run to see whether RDMA works: where the cluster file has it, anything else is a failure."""
    resumes: str = ""
    """The earlier run, as the user calls it, whose states on the nodes are gone on from; empty starts at step 1."""

    def ranks_on(self, node: Node) -> int:
        """Return how many ranks a node gets."""
        return self.ranks or max(1, len(node.gpus))


class TrainJob:
    """Training, as the launch sees it."""

    def __init__(self, course: Course, saved: Saved, ledger: Ledger) -> None:
        self._course = course
        self._saved = saved
        self._ledger = ledger
        self._fresh = 0.0
        self._idle = IdleTimes(0)
        self._phases = Phases(0)

    def generation(self, number: int, members: Sequence[Member]) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks; they go on from the newest state that a member has."""
        world = sum(member.ranks for member in members)
        self._idle, self._phases = IdleTimes(world), Phases(world)
        self._ledger.generation([member.name for member in members])
        return ranks_of(self._course, number, members, self._saved)

    def hear(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Note what was saved where, and keep what a rank tells."""
        match message:
            case {"kind": "evaluation", "step": int(step)} if rank == 0:  # whose word is kept
                self._saved.evaluated.add(step)
            case {"kind": "checkpoint", "step": int(step), "hash": str(digest)}:
                self._saved.note(node, step, digest)
                if step < self._course.recipe["steps"]:
                    self._fresh = time.monotonic()
        known = [*self._idle.hear(node, rank, message), *self._ledger.hear(node, rank, message)]
        return [*records_of(node, rank, message), *known, *self._phases.hear(rank, message)]

    @property
    def may_regroup(self) -> bool:
        """Right after a checkpoint is a good moment, other than the last one."""
        return time.monotonic() - self._fresh < FRESH_SECONDS


async def train(cluster: Cluster, fleet: Fleet, order: Order) -> AsyncGenerator[Record, None]:
    """Train on a cluster."""
    _refuse_strangers(cluster, order.recipe)
    members = {name: _member(name, node, order.ranks_on(node)) for name, node in cluster.nodes.items()}
    code = own_code()
    tokens = parcel("tokens", {path.name: path for path in order.tokens.iterdir()} if order.tokens else {})
    yield _shipping(code, tokens)
    shipped = await ship(fleet, cluster.nodes, cluster.training.workdir, [code, tokens], folder=f"runs/{order.run}")
    for node, error in shipped.failed.items():
        yield Event(name="node_lost", subject=node, message=error.message)
    _need_enough(shipped, order)
    world = sum(member.ranks for member in members.values())
    for notice in disk_notices(order.recipe, order.tokens, shipped.free, world=world):
        yield notice
    yield progress("reading the network cards of the nodes")
    fabric = fabric_of(cluster, await read_facts(cluster, fleet, only=shipped.bases))
    _need_rdma(cluster, order, {name: fabric[name] for name in shipped.bases})
    places = _places(cluster, order.run, shipped.bases, code.name, tokens.name, fabric)
    course = Course(
        run=order.run,
        recipe=order.recipe,
        places=places,
        port=meeting_port(cluster),
        transport=order.transport,
        prompt=order.prompt,
    )
    saved = Saved()
    if order.resumes:
        yield progress("verifying the checkpoints on the nodes")
        ordered = {name: places[name] for name in cluster.nodes if name in places}
        looks = {name: _run(at, VERIFY, f"{at.folder}/checkpoints") for name, at in ordered.items()}
        async for event in resume_point(fleet, looks, saved, order.resumes, order.recipe["steps"]):
            yield event
    agents = {name: _agent(place) for name, place in places.items()}
    taking_part = [member for name, member in members.items() if name in places]
    ledger = Ledger(cluster, fabric, demanded=must_be_rdma(cluster, order.transport, proves=order.proves))
    supervisor = Supervisor(fleet, TrainJob(course, saved, ledger), taking_part, agents, order.minimum)
    downtime = Downtime()
    yield progress("starting an agent on each node", waiting=[member.name for member in taking_part])
    async with aclosing(supervisor.run()) as records:
        async for record in records:
            yield record
            for known in downtime.see(record):
                yield known
    for record in ledger.closing():
        yield record


def _places(  # noqa: PLR0917  (where everything is)
    cluster: Cluster, run: str, bases: Mapping[str, str], code: str, tokens: str, fabric: Mapping[str, NodeFabric]
) -> dict[str, Place]:
    return {
        name: Place(
            python=cluster.nodes[name].python,
            code=f"{base}/{code}",
            tokens=f"{base}/{tokens}",
            folder=f"{base}/runs/{run}/{name}",
            interface=_interface(cluster.nodes[name]),
            environment=fabric[name].environment,
            no_rdma=fabric[name].obstacle,
        )
        for name, base in bases.items()
    }


def _shipping(*parcels: Parcel) -> Event:
    sent = size(sum(sum(one.sizes.values()) for one in parcels))
    return progress(f"putting code and text on the nodes ({sent} each, where it is not there yet)")


def _need_enough(shipped: Shipped, order: Order) -> None:
    """Refuse to begin on fewer nodes than must be left to go on."""
    if len(shipped.bases) < order.minimum:
        why = "; ".join(f"{node}: {error.message}" for node, error in shipped.failed.items())
        nodes = len(shipped.bases) + len(shipped.failed)
        raise GaveUp(
            f"{len(shipped.bases)} of {nodes} nodes can train, {order.minimum} are needed ({why})",
            hint=next((error.hint for error in shipped.failed.values() if error.hint), ""),
        )


def _need_rdma(cluster: Cluster, order: Order, fabric: Mapping[str, NodeFabric]) -> None:
    """Refuse MPI where a node lacks the RDMA that the cluster file gives it. Where the file has none, MPI takes TCP."""
    if order.transport == "mpi" and (lacking := without_rdma(cluster, fabric)):
        why = f"{lacking}: {fabric[lacking].obstacle}"
        raise Refused(f"mpi was asked for and does not work here: {why}", hint=fabric[lacking].remedy)


def _refuse_strangers(cluster: Cluster, recipe: Mapping[str, Any]) -> None:
    """Refuse a recipe that gives a weight to a node that is not there."""
    shares = recipe.get("shares")
    for name in shares if isinstance(shares, Mapping) else ():
        if name not in cluster.nodes:
            raise UsageError(
                f"the recipe's shares name {name}, which is no node of this cluster",
                hint=f"its nodes are {', '.join(cluster.nodes)}",
            )


def _agent(place: Place) -> str:
    return _run(place, "railbed.launch.node.agent", place.folder, *LOADED_AHEAD)


def _run(place: Place, module: str, *arguments: str) -> str:
    return module_command(place.python, place.code, module, arguments)


def _member(name: str, node: Node, ranks: int) -> Member:
    if node.ports:
        return Member(name=name, address=str(node.ports[0].address), ranks=ranks)
    if node.host == LOCAL_HOST:
        return Member(name=name, address="127.0.0.1", ranks=ranks)
    raise UsageError(
        f"{name} has no port on a rail, so its ranks have no address for the others",
        hint="`railbed discover --write` finds its ports, or write `ports:` into the cluster file",
    )


def _interface(node: Node) -> str:
    return ",".join(port.netdev for port in node.ports[:1]) or "lo"
