"""How ranks find each other: keys and values at rank 0's address, for those who know the secret of the generation."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import time
from dataclasses import dataclass, field
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store

from railbed.collective.keyserver import Alarm, KeyServer
from railbed.collective.keystore import KeyStore
from railbed.errors import RankFailed
from railbed.launch.messages import Messages
from railbed.launch.spec import RankSpec

POLL_SECONDS = 0.005
READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Where and as whom a rank joins."""

    address: str
    port: int
    name: str
    """Of the run and its generation: ranks of another one use other keys, and never meet these."""
    rank: int
    world: int
    interface: str
    """The interface, or several with commas, that this node talks through."""
    timeout: float
    secret: str = field(repr=False)
    """64 hexadecimal digits that the ranks of this generation know, and nobody else."""
    node: str = ""
    """Name of its node, for sentences."""
    machine: int = 0
    """Number of its machine: that of the first rank there."""
    no_rdma: str = ""
    """Why its node has no RDMA, as far as that is known."""

    @classmethod
    def of(cls, spec: RankSpec) -> Rendezvous:
        """Return where a rank joins, from what it was given."""
        return cls(
            address=spec.master_address,
            port=spec.master_port,
            name=f"{spec.run}/{spec.generation}",
            rank=spec.rank,
            world=spec.world,
            interface=spec.interface,
            timeout=spec.timeout_seconds,
            secret=spec.secret,
            node=spec.node,
            machine=spec.rank - spec.local_rank,
            no_rdma=spec.no_rdma,
        )

    @property
    def span(self) -> timedelta:
        """Return the time-out as torch takes it."""
        return timedelta(seconds=self.timeout)


def open_store(rendezvous: Rendezvous, alarm: Alarm) -> Store:
    """Return a store that all ranks share, once all are there; raise RankFailed that names who is missing.

    Whoever does not know the secret is turned away and told of to `alarm`.
    """
    if not rendezvous.secret:
        raise RankFailed("the job has no secret by which its ranks know each other")
    key = hmac.digest(bytes.fromhex(rendezvous.secret), rendezvous.name.encode(), hashlib.sha256)
    try:
        if rendezvous.rank == 0:
            KeyServer(rendezvous.address, rendezvous.port, key, rendezvous.world, alarm)
        store = KeyStore(rendezvous.address, rendezvous.port, key, rendezvous.timeout, alarm)
        store.open()
    except OSError as error:
        raise RankFailed(_not_reached(rendezvous, error), peer=rendezvous.rank != 0) from None
    named = PrefixStore(rendezvous.name, store)
    named.set(f"arrived/{rendezvous.rank}", "yes")
    _wait_for_all(rendezvous, named)
    return named


def alarm_to(messages: Messages) -> Alarm:
    """Return what reports a stranger to who started the ranks."""
    return lambda address, sentence: messages.send("intrusion", address=address, sentence=sentence)


def exchange(store: Store, rendezvous: Rendezvous, name: str, said: str, seconds: float = 0.0) -> list[str]:
    """Tell the others something under a name, and return what each rank told; raise RankFailed where one does not."""
    keys = PrefixStore(name, store)
    limit = seconds or rendezvous.timeout
    try:
        keys.set(str(rendezvous.rank), said)
        ranks = [str(rank) for rank in range(rendezvous.world)]
        keys.wait(ranks, timedelta(seconds=limit))
        told = [text.decode() for text in keys.multi_get(ranks)]
        _await_readers(keys, rendezvous)
    except RuntimeError:
        raise RankFailed(f"not all ranks told their {name} within {limit:g} s", peer=True) from None
    return told


def _await_readers(keys: Store, rendezvous: Rendezvous) -> None:
    """Let rank 0, who has the store, not go away with it before the others have read."""
    readers = keys.add("readers", 1)
    deadline = time.monotonic() + READ_SECONDS
    while rendezvous.rank == 0 and readers < rendezvous.world and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        readers = keys.add("readers", 0)


def _wait_for_all(rendezvous: Rendezvous, store: Store) -> None:
    arrived = {rank: f"arrived/{rank}" for rank in range(rendezvous.world)}
    try:
        store.wait(list(arrived.values()), rendezvous.span)
    except RuntimeError:
        try:
            missing = [str(rank) for rank, key in arrived.items() if not store.check([key])]
        except RuntimeError:
            raise RankFailed(f"rank 0 at {rendezvous.address} went away while ranks were joining", peer=True) from None
        if missing:
            sentence = f"rank {', '.join(missing)} did not come within {rendezvous.timeout:g} s"
            raise RankFailed(sentence, peer=True) from None


def _not_reached(rendezvous: Rendezvous, error: OSError) -> str:
    place = f"{rendezvous.address}:{rendezvous.port}"
    if rendezvous.rank == 0 and error.errno:
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno)
        return f"rank 0 cannot listen at {place}: {reason}"
    return f"rank 0 at {place} did not answer within {rendezvous.timeout:g} s"
