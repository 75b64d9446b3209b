"""What is run: the ranks of each generation, and what becomes of what they say."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from railbed.launch.protocol import Message
from railbed.launch.roster import Member
from railbed.model.cluster import LOCAL_HOST, Cluster
from railbed.model.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStart:
    """One rank of a generation."""

    rank: int
    command: Sequence[str]
    """`{job}` stands for the file with the job, `{messages}` for the file descriptor that its messages go to."""
    job: str = field(repr=False)
    """Text of its job file, with the secret in it."""
    env: Mapping[str, str] = field(default_factory=dict)

    def as_message(self) -> Message:
        """Return what the agent is told of it."""
        return {"rank": self.rank, "command": list(self.command), "job": self.job, "env": dict(self.env)}


def new_secret() -> str:
    """Return what the ranks of one generation know each other by: it travels to them inside their jobs, over SSH."""
    return secrets.token_hex(32)


def meeting_port(cluster: Cluster) -> int:
    """Return the port that rank 0 listens on: the cluster file's, which firewalls know.

    Where all ranks are on this machine, no firewall is between them: any port that is free now lets several runs be.
    """
    if any(node.ports or node.host != LOCAL_HOST for node in cluster.nodes.values()):
        return cluster.training.rendezvous_port
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Job(Protocol):
    """What is run. It is told everything that its ranks say, and says when it is done."""

    def generation(self, number: int, members: Sequence[Member]) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks of a generation, by node."""
        ...

    def hear(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        """Take what a rank said, and return what of it is to be kept."""
        ...

    @property
    def may_regroup(self) -> bool:
        """Whether now is a good moment to start anew with a node that came back: nothing is lost by it."""
        ...
