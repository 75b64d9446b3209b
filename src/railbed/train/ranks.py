"""Who trains: the ranks of a generation on the nodes that are there, and the state that they go on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from railbed.launch.job import RankStart, new_secret
from railbed.launch.roster import Member
from railbed.train.spec import RankSpec, ResumeSource

WORKER = "railbed.train.worker"
LOADED_AHEAD = ("railbed.train.worker.loop", "torch._dynamo")
"""What the nodes load before ranks are started: the worker, torch, and what torch's optimisers load when first used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where things are on a node."""

    python: str
    code: str
    """Folder that this railbed was put into."""
    tokens: str
    folder: str
    """The run's own folder on this node; two nodes with one disk have two."""
    interface: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the fabric asks of NCCL, UCX and Gloo here."""
    no_rdma: str = ""
    """Why there is no RDMA here; empty where there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What does not change from one generation to the next."""

    run: str
    recipe: Mapping[str, Any]
    places: Mapping[str, Place]
    port: int
    transport: str = "auto"
    threads: int = 0
    prompt: tuple[int, ...] = ()
    timeout: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all ranks of a generation have in common, and no other generation has."""

    generation: int
    members: Sequence[Member]
    resume: ResumeSource | None
    owes_evaluation: bool
    """The state that it goes on from was saved, and its validation, where one was due, did not come to its end."""
    secret: str = field(repr=False)


@dataclass
class Saved:
    """Which checkpoints are known to be whole, on which nodes."""

    steps: dict[str, dict[int, str]] = field(default_factory=dict)
    """Hashes of the states by step, for each node."""
    evaluated: set[int] = field(default_factory=set)
    """Steps whose validation loss is known."""

    def note(self, node: str, step: int, digest: str) -> None:
        """Note a checkpoint; a node keeps the last two."""
        kept = self.steps.setdefault(node, {})
        kept[step] = digest
        for old in sorted(kept)[:-2]:
            del kept[old]

    def newest(self, nodes: Sequence[str]) -> tuple[int, str] | None:
        """Return the newest step that one of these nodes has, and the first node that has it."""
        found = [(step, node) for node in nodes for step in self.steps.get(node, {})]
        if not found:
            return None
        step = max(step for step, _ in found)
        return step, next(node for at, node in found if at == step)


def ranks_of(course: Course, generation: int, members: Sequence[Member], saved: Saved) -> dict[str, list[RankStart]]:
    """Return the ranks of a generation, by node: numbered in the order of the members, the first is rank 0."""
    first = {member.name: sum(one.ranks for one in members[:at]) for at, member in enumerate(members)}
    newest = saved.newest([member.name for member in members])
    resume = ResumeSource(step=newest[0], rank=first[newest[1]]) if newest else None
    owed = newest is not None and newest[0] not in saved.evaluated
    shared = Shared(generation=generation, members=members, resume=resume, owes_evaluation=owed, secret=new_secret())
    return {
        member.name: [_rank(course, shared, member, first[member.name] + local, local) for local in range(member.ranks)]
        for member in members
    }


def names_of(members: Sequence[Member]) -> tuple[str, ...]:
    """Return what each rank is called: by its node, whose name stays the same when ranks get other numbers."""
    return tuple(
        member.name if member.ranks == 1 else f"{member.name}:{local}"
        for member in members
        for local in range(member.ranks)
    )


def shares_of(recipe: Mapping[str, Any], members: Sequence[Member]) -> tuple[float, ...]:
    """Return the weight of each rank: its node's in the recipe, or 1."""
    given = recipe.get("shares")
    weights = given if isinstance(given, Mapping) else {}
    return tuple(float(weights.get(member.name, 1.0)) for member in members for _ in range(member.ranks))


def _rank(course: Course, shared: Shared, member: Member, rank: int, local: int) -> RankStart:
    place = course.places[member.name]
    job = RankSpec(
        recipe=dict(course.recipe),
        run=course.run,
        generation=shared.generation,
        rank=rank,
        world=sum(one.ranks for one in shared.members),
        local_rank=local,
        local_world=member.ranks,
        shares=shares_of(course.recipe, shared.members),
        names=names_of(shared.members),
        master_address=shared.members[0].address,
        master_port=course.port,
        secret=shared.secret,
        interface=place.interface,
        timeout_seconds=course.timeout,
        transport=course.transport,
        node=member.name,
        no_rdma=place.no_rdma,
        threads=course.threads,
        tokens=place.tokens,
        checkpoints=f"{place.folder}/checkpoints",
        export=f"{place.folder}/model",
        resume=shared.resume,
        owes_evaluation=shared.owes_evaluation,
        prompt=course.prompt,
        environment=dict(place.environment),
    )
    command = [place.python, "-m", WORKER, "{job}", "--messages", "{messages}"]
    return RankStart(rank=rank, command=command, job=job.to_json(), env={"PYTHONPATH": place.code})
