"""What is run: the ranks of each generation, and how their messages become records."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from railbed.launch.messages import SAFE_PATH, Message
from railbed.launch.placement import Placement
from railbed.launch.spec import RankSpec
from railbed.model.record import Record

ENTRY = "railbed.launch.rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStart:
    """How the agent starts one rank of a generation."""

    rank: int
    command: Sequence[str]
    """`{job}` stands for the job file, `{messages}` for the file descriptor that messages are written to.

    The rank with `{listener}` inherits the socket where the ranks meet, under that file descriptor."""
    job: str = field(repr=False)
    """Text of the job file, with the secret in it."""
    env: Mapping[str, str] = field(default_factory=dict)

    def as_message(self) -> Message:
        """Return the message for the agent."""
        return {"rank": self.rank, "command": list(self.command), "job": self.job, "env": dict(self.env)}


class Job(Protocol):
    """What the supervisor runs."""

    @property
    def preload(self) -> Sequence[str]:
        """Modules that every node loads once, before ranks are started; empty if each rank loads its own."""
        ...

    @property
    def advice(self) -> str:
        """What the user can do if the supervisor gives up; may be empty."""
        ...

    @property
    def may_regroup(self) -> bool:
        """Whether little is lost if the job starts again now, with a node that has returned."""
        ...

    def generation(self, number: int, placements: Sequence[Placement], port: int) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks of a generation, by node; they meet on a port of the first one."""
        ...

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Take a message of a rank, and return the records that follow from it."""
        ...


def rank_specs(run: str, generation: int, placements: Sequence[Placement], port: int) -> list[RankSpec]:
    """Return the specs of the ranks of a generation, numbered in the order of the placements, with a new secret."""
    world, secret = sum(placement.ranks for placement in placements), new_secret()
    places = [(placement, local) for placement in placements for local in range(placement.ranks)]
    return [
        RankSpec(
            run=run,
            generation=generation,
            rank=rank,
            world=world,
            local_rank=local,
            local_world=placement.ranks,
            node=placement.node,
            master_address=placements[0].address,
            master_port=port,
            secret=secret,
            interface=placement.interface,
            no_rdma=placement.no_rdma,
            environment=dict(placement.environment),
        )
        for rank, (placement, local) in enumerate(places)
    ]


def rank_starts(
    function: str, specs: Sequence[RankSpec], placements: Sequence[Placement]
) -> dict[str, list[RankStart]]:
    """Return how the ranks are started, by node; each calls `function`, of the form `module:name`, with its spec."""
    by_node = {placement.node: placement for placement in placements}
    starts: dict[str, list[RankStart]] = {name: [] for name in by_node}
    for spec in specs:
        placement = by_node[spec.node]
        reader = f"{type(spec).__module__}:{type(spec).__qualname__}"
        # The agent runs behind the launcher already, and so do the ranks that it starts.
        command = [placement.interpreter[-1], "-m", ENTRY, reader, function, "{job}", "--messages", "{messages}"]
        if spec.rank == 0:
            command += ["--listener", "{listener}"]
        environment = {"PYTHONPATH": placement.code, **SAFE_PATH}
        start = RankStart(rank=spec.rank, command=command, job=spec.to_json(), env=environment)
        starts[spec.node].append(start)
    return starts


def new_secret() -> str:
    """Return the secret with which the ranks of a generation authenticate each other; job files carry it over SSH."""
    return secrets.token_hex(32)
