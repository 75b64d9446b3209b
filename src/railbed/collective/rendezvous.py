"""How ranks find each other: through keys and values at rank 0's address, with the secret of the generation."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store

from railbed.collective.keys import KeyStore
from railbed.collective.keyserver import Alarm, KeyServer
from railbed.errors import RankFailed
from railbed.launch.messages import Messages
from railbed.launch.node.meeting import listen
from railbed.launch.spec import RankSpec

READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """The address, identity and secret with which a rank joins."""

    address: str
    port: int
    name: str
    """Run and generation: ranks of other generations use other keys, and never join these."""
    rank: int
    world: int
    interface: str
    """The network interface of this node, or several with commas."""
    timeout: float
    secret: str = field(repr=False)
    """64 hexadecimal digits that only the ranks of this generation have."""
    node: str = ""
    """Name of its node, for messages."""
    listener: int = -1
    """File descriptor of the socket that rank 0 inherits for this address and port; -1 if it opens one."""
    machine: int = 0
    """Number of its machine: the first rank there."""
    no_rdma: str = ""
    """Why its node has no RDMA, if known."""

    @classmethod
    def of(cls, spec: RankSpec) -> Rendezvous:
        """Return the rendezvous of a rank, from its specification."""
        return cls(
            address=spec.master_address,
            port=spec.master_port,
            listener=spec.listener,
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
        """Return the time-out in torch's type."""
        return timedelta(seconds=self.timeout)


def open_store(rendezvous: Rendezvous, alarm: Alarm) -> Store:
    """Return a store that all ranks share, once all have joined; raise a RankFailed that names the missing ones.

    A client without the secret is rejected and reported to `alarm`.
    """
    if not rendezvous.secret:
        raise RankFailed("the job has no secret with which its ranks could authenticate each other")
    key = hmac.digest(bytes.fromhex(rendezvous.secret), rendezvous.name.encode(), hashlib.sha256)
    try:
        if rendezvous.rank == 0:
            KeyServer(_listener(rendezvous), key, rendezvous.world, alarm)
        store = KeyStore(rendezvous.address, rendezvous.port, key, rendezvous.timeout, alarm)
        store.open()
    except OSError as error:
        raise RankFailed(_not_reached(rendezvous, error), peer=rendezvous.rank != 0) from None
    named = PrefixStore(rendezvous.name, store)
    named.set(f"arrived/{rendezvous.rank}", "yes")
    _wait_for_all(rendezvous, named)
    return named


def _listener(rendezvous: Rendezvous) -> socket.socket:
    if rendezvous.listener >= 0:
        return socket.socket(fileno=rendezvous.listener)
    return listen(rendezvous.address, rendezvous.port)


def alarm_to(messages: Messages) -> Alarm:
    """Return an alarm that reports strangers through the rank's messages."""
    return lambda address, sentence: messages.send("intrusion", address=address, sentence=sentence)


def exchange(store: Store, rendezvous: Rendezvous, name: str, text: str, seconds: float = 0.0) -> list[str]:
    """Publish a text under a name, and return the texts of all ranks; raise RankFailed if one is missing."""
    keys = PrefixStore(name, store)
    limit = seconds or rendezvous.timeout
    try:
        keys.set(str(rendezvous.rank), text)
        ranks = [str(rank) for rank in range(rendezvous.world)]
        keys.wait(ranks, timedelta(seconds=limit))
        texts = [value.decode() for value in keys.multi_get(ranks)]
        _await_readers(keys, rendezvous)
    except RuntimeError:
        raise RankFailed(f"not all ranks sent their {name} within {limit:g} s", peer=True) from None
    return texts


def _await_readers(keys: Store, rendezvous: Rendezvous) -> None:
    """Keep rank 0, which serves the store, from ending before the others have read."""
    is_last = keys.add("readers", 1) == rendezvous.world
    with contextlib.suppress(RuntimeError):  # all texts are here, whoever ends now
        if is_last:
            keys.set("all have read", "yes")
        if rendezvous.rank == 0:
            keys.wait(["all have read"], timedelta(seconds=READ_SECONDS))


def _wait_for_all(rendezvous: Rendezvous, store: Store) -> None:
    arrived = {rank: f"arrived/{rank}" for rank in range(rendezvous.world)}
    try:
        store.wait(list(arrived.values()), rendezvous.span)
    except RuntimeError:
        try:
            missing = [str(rank) for rank, key in arrived.items() if not store.check([key])]
        except RuntimeError:
            raise RankFailed(
                f"the connection to rank 0 at {rendezvous.address} was lost while ranks were joining", peer=True
            ) from None
        if missing:
            sentence = f"rank {', '.join(missing)} did not join within {rendezvous.timeout:g} s"
            raise RankFailed(sentence, peer=True) from None


def _not_reached(rendezvous: Rendezvous, error: OSError) -> str:
    place = f"{rendezvous.address}:{rendezvous.port}"
    if rendezvous.rank == 0 and error.errno:
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno)
        return f"rank 0 cannot listen at {place}: {reason}"
    return f"rank 0 at {place} did not answer within {rendezvous.timeout:g} s"
