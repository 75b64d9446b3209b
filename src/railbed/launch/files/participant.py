"""A node that gets a large parcel: what it has of it, where the rest comes from, and how others reach it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from railbed.launch.files.client import FileClient
from railbed.launch.messages import Message
from railbed.model.cluster import Cluster


@dataclass(frozen=True)
class Admission:
    """A key that a source accepts once it has answered."""

    number: int
    key: str = field(repr=False)


@dataclass
class Participant:
    """A node that takes part in a distribution."""

    name: str
    addresses: Mapping[str, str]
    """Its address on each rail, the fastest first."""
    client: FileClient | None = None
    """The connection to its relay, once that is ready."""
    has_answered: bool = False
    """It is known what the node has, or that it has to wait, or that it failed."""
    is_over: bool = False
    """It has everything, or it failed."""
    is_complete: bool = False
    have: int = 0
    """Pieces that it has: the first ones."""
    had: int = 0
    """Pieces that it had when its relay was started."""
    source: str | None = None
    """The node that it gets pieces from, or CONTROL; None if nobody sends any."""
    admission: Admission | None = None
    """What the source has been asked for and not yet answered."""
    address: str = ""
    """The address of the source that it connected to."""
    unusable: set[str] = field(default_factory=set)
    """Nodes from which it could not get pieces."""
    since: float = 0.0
    """When its relay was ready."""
    outbox: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    feeding: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, cluster: Cluster, name: str) -> Participant:
        """Return a node of a cluster."""
        ports = sorted(cluster.nodes[name].ports, key=lambda port: -(cluster.rails[port.rail].speed or 0.0))
        return cls(name, {port.rail: str(port.address) for port in ports})

    @property
    def lacks_source(self) -> bool:
        """Return whether it could receive pieces, and nobody sends any."""
        return self.client is not None and not self.is_over and self.source is None

    @property
    def can_serve(self) -> bool:
        """Return whether it has everything, or gets more."""
        return self.client is not None and (self.is_complete or self.source is not None)

    def connect(self, client: FileClient, have: int) -> None:
        """Note that its relay is ready."""
        self.client, self.have, self.had, self.has_answered = client, have, have, True
        self.source, self.outbox, self.since = None, asyncio.Queue(), time.monotonic()

    def disconnect(self) -> None:
        """Note that its relay has ended."""
        self.client, self.source, self.admission = None, None, None

    def await_admission(self, source: Participant, number: int, key: str) -> None:
        """Ask a source to serve it."""
        self.source, self.admission = source.name, Admission(number, key)
        source.send({"do": "admit", "key": key, "number": number})

    def send(self, message: Message) -> None:
        """Send a command, if its relay runs."""
        if self.client:
            self.outbox.put_nowait(message)

    def shares_rail(self, other: Participant) -> bool:
        """Return whether both are on one rail."""
        return not self.addresses.keys().isdisjoint(other.addresses)

    def places(self, source: Participant, ports: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return where it reaches a source that listens on these ports of its addresses: the fastest rail first."""
        there = [source.addresses[rail] for rail in self.addresses if rail in source.addresses]
        return [(address, ports[address]) for address in there if address in ports]


def rail_of(participant: Participant, address: str) -> str:
    """Return the rail on which a node has an address; empty if none."""
    return next((rail for rail, own in participant.addresses.items() if own == address), "")


def best_source(participant: Participant, others: Mapping[str, Participant]) -> Participant | None:
    """Return from whom a node should get pieces: whoever serves the fewest nodes, and of these, has the most."""
    candidates = [
        other
        for other in others.values()
        if other is not participant
        and other.can_serve
        and other.name not in participant.unusable
        and participant.shares_rail(other)
        and not _gets_from(other, participant, others)
    ]
    served = [other.source for other in others.values()]
    return min(candidates, key=lambda other: (served.count(other.name), -other.have), default=None)


def _gets_from(participant: Participant, other: Participant, others: Mapping[str, Participant]) -> bool:
    """Return whether pieces come to a node through another: then both would wait for each other."""
    visited: Sequence[str] = ()
    current = participant
    while current.source and current.source not in visited:
        if current.source == other.name:
            return True
        visited = (*visited, current.name)
        current = others[current.source]
    return False
