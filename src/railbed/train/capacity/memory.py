"""Does the model fit? What a rank is estimated to need beside what its node has for it, before anything is started."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from railbed.errors import UserError
from railbed.fleet import Fleet, survey
from railbed.model.cluster import Cluster, Node
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Event, Record
from railbed.probes import gpu, memory
from railbed.train.capacity.estimate import GPU_MEMORY_USED, Memory, micro_limit
from railbed.train.capacity.estimate import memory as estimate
from railbed.train.data.sampling import deal, pieces
from railbed.train.run import Order
from railbed.train.settings import Settings

ESTIMATE = "estimate"
BF16 = 8.0
"""The first compute capability with bf16; a driver that does not tell one is taken to have it."""


class TooBig(UserError):
    """The model does not fit into a node's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a node has."""

    node: str
    ranks: int
    device: str
    """`cpu`, or the name of the GPU."""
    memory: int
    """Bytes: of one GPU, or what all ranks of the node share."""
    value_bytes: int = 4
    """Of a number as it is computed with."""

    @property
    def gpu(self) -> bool:
        """Each rank has a GPU of its own."""
        return self.device != "cpu"

    @property
    def usable(self) -> int:
        """Return what can be planned with."""
        return int(self.memory * GPU_MEMORY_USED) if self.gpu else self.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A model on a node."""

    room: Room
    need: Memory
    """Of the first rank."""
    micro: int

    @property
    def needed(self) -> int:
        """Return what is needed of the room: by one rank on its GPU, or by all ranks of the node."""
        return self.need.total if self.room.gpu else self.need.of_ranks(self.room.ranks)

    @property
    def fits(self) -> bool:
        """Say whether there is room enough."""
        return self.needed <= self.room.usable


async def fit(cluster: Cluster, fleet: Fleet, order: Order) -> AsyncGenerator[Record, None]:
    """Yield the estimate; raise TooBig where a node has too little memory. A node that says nothing is not judged."""
    settings = Settings.read(order.recipe)
    world = sum(order.ranks_on(node) for node in cluster.nodes.values())
    vocabulary = _vocabulary(settings, order)
    found: list[Fit] = []
    async with aclosing(survey(fleet, cluster, (memory.PROBE, gpu.PROBE))) as answers:
        async for facts in answers:
            node = cluster.nodes[facts.device]
            room = room_of(facts, node, order.ranks_on(node), settings.precision)
            if room:
                found.append(fit_of(settings, vocabulary, world, room))
    for one in found:
        if not one.fits:
            raise TooBig(in_words(one), hint=advice(settings, vocabulary, world, one))
    if found:
        yield _told(found)


def room_of(facts: DeviceFacts, node: Node, ranks: int, precision: str) -> Room | None:
    """Return what a node has for its ranks: the smallest of their GPUs where it has some, or what memory is free."""
    cards = [*_cards(facts, node)][:ranks]
    if cards:
        name, size, has_bf16 = min(cards, key=lambda card: card[1])
        wide = precision == "fp32" or (precision == "auto" and not has_bf16)
        return Room(node=facts.device, ranks=ranks, device=name, memory=size, value_bytes=4 if wide else 2)
    read = facts.read(memory.PROBE)
    if not isinstance(read, Known) or node.gpus:
        return None
    free = read.facts.total if read.facts.available is None else read.facts.available
    value_bytes = 2 if precision == "bf16" else 4
    return Room(node=facts.device, ranks=ranks, device="cpu", memory=free, value_bytes=value_bytes)


def _cards(facts: DeviceFacts, node: Node) -> Iterator[tuple[str, int, bool]]:
    """Yield name, memory and whether it computes in bf16 of each GPU that the driver shows, or else the file lists."""
    read = facts.read(gpu.PROBE)
    shown = read.facts.gpus if isinstance(read, Known) else ()
    for card in shown:
        if card.memory_bytes:
            yield card.name, card.memory_bytes, float(card.compute_capability or BF16) >= BF16
    if not shown:
        yield from ((card.name, int(card.memory_gb * 2**30), True) for card in node.gpus if card.memory_gb)


def fit_of(settings: Settings, vocabulary: int, world: int, room: Room) -> Fit:
    """Return how the model fits, with the micro-batch that the ranks will choose."""
    gpu_bytes = room.memory if room.gpu else None
    limit = micro_limit(settings, vocabulary=vocabulary, value_bytes=room.value_bytes, gpu_bytes=gpu_bytes)
    most = max(deal(settings.batch.sequences, (1.0,) * world), key=len)
    micro = max((len(part) for part in pieces(most, max(1, limit))), default=1)
    need = estimate(settings, vocabulary=vocabulary, micro=micro, value_bytes=room.value_bytes, gpu=room.gpu)
    return Fit(room=room, need=need, micro=micro)


def in_words(one: Fit) -> str:
    """Say in one sentence that the model is too big, in numbers."""
    need, room = one.need, one.room
    who = "a rank needs" if room.gpu or room.ranks == 1 else f"its {room.ranks} ranks need"
    has = f"{_gb(room.usable)} of its {room.device} can be used" if room.gpu else f"{_gb(room.usable)} are free"
    return (
        f"the model is too big for {room.node}: {who} about {_gb(one.needed)}, and {has} ({need.parameters:,} "
        f"parameters: each rank {_gb(need.state)} for them and the optimiser, {_gb(need.activations)} for a "
        f"micro-batch of {one.micro})"
    )


def advice(settings: Settings, vocabulary: int, world: int, one: Fit) -> str:
    """Return what would help by the same estimate, and nothing that would not."""

    def helps(changed: Settings, room: Room) -> bool:
        return fit_of(changed, vocabulary, world, room).fits

    small = replace(settings, batch=replace(settings.batch, micro=1))
    ways = {
        "--set batch.micro=1": helps(small, one.room),
        "--set gradient_checkpointing=true": helps(replace(settings, gradient_checkpointing=True), one.room),
        "--ranks 1": not one.room.gpu and helps(settings, replace(one.room, ranks=1)),
    }
    found = " or ".join(way for way, does in ways.items() if does)
    if not found and helps(replace(small, gradient_checkpointing=True), one.room):
        found = "--set batch.micro=1 and --set gradient_checkpointing=true together"
    found = found or "a smaller model (model.width, model.layers, model.context) or a node with more memory"
    return f"{found} would help; --no-check starts it all the same"


def _told(found: Sequence[Fit]) -> Event:
    """Return the estimate as one record; its words are about the node that it is tightest on."""
    tightest = max(found, key=lambda one: one.needed / max(1, one.room.usable))
    room, need = tightest.room, tightest.need
    others = f", the tightest of {len(found)} nodes" if len(found) > 1 else ""
    ranks = "a rank" if room.gpu or room.ranks == 1 else f"{room.ranks} ranks"
    return Event(
        name=ESTIMATE,
        message=f"{need.parameters:,} parameters; {ranks} will take about {_gb(tightest.needed)} of "
        f"{_gb(room.usable)} {f'on a {room.device}' if room.gpu else 'free memory'} of {room.node}{others}",
        data={"parameters": need.parameters, "nodes": {one.room.node: _node(one) for one in found}},
    )


def _node(one: Fit) -> Mapping[str, object]:
    return {
        "device": one.room.device,
        "ranks": one.room.ranks,
        "micro_batch": one.micro,
        "estimated_rank_bytes": one.need.total,
        "estimated_state_bytes": one.need.state,
        "estimated_activation_bytes": one.need.activations,
        "needed_bytes": one.needed,
        "available_bytes": one.room.usable,
    }


def _vocabulary(settings: Settings, order: Order) -> int:
    if settings.model.vocabulary != "auto":
        return settings.model.vocabulary
    assert order.tokens is not None  # only a load for the network has none, and that has no model
    return int(json.loads((order.tokens / "tokens.json").read_text())["vocabulary"])


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
