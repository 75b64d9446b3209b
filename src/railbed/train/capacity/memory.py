"""Compares the memory that the ranks of a node will need with the memory it has, before anything is started."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from railbed.errors import UserError
from railbed.fleet import Fleet, read_facts
from railbed.model import events, text
from railbed.model.cluster import Cluster, Node
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Event, Record
from railbed.probes import gpu, memory
from railbed.train.capacity.estimate import GPU_MEMORY_USED, MemoryEstimate, micro_limit
from railbed.train.capacity.estimate import memory as estimate
from railbed.train.capacity.fit import with_vocabulary
from railbed.train.data.sampling import deal, pieces
from railbed.train.precision import BF16_CAPABILITY, VALUE_BYTES, Format, Precision, format_of_card
from railbed.train.recipe import Recipe
from railbed.train.run import TrainRequest

FACTS: tuple[Probe[Any], ...] = (memory.PROBE, gpu.PROBE)
"""The probes that `check_memory` needs."""


class TooBig(UserError):
    """The model does not fit into a node's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The memory of a node."""

    node: str
    ranks: int
    device: str
    """`cpu`, or the name of the GPU."""
    memory: int
    """Bytes of one GPU, or bytes that all ranks of the node share."""
    value_bytes: int = 4
    """Bytes of a value in the forward pass."""

    @property
    def gpu(self) -> bool:
        """Whether each rank has its own GPU."""
        return self.device != "cpu"

    @property
    def usable(self) -> int:
        """Return the bytes that ranks can use."""
        return int(self.memory * GPU_MEMORY_USED) if self.gpu else self.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A model on a node."""

    room: Room
    need: MemoryEstimate
    """The memory of the node's first rank."""
    micro: int

    @property
    def needed(self) -> int:
        """Return the bytes needed: by one rank on its GPU, or by all ranks of the node."""
        return self.need.total if self.room.gpu else self.need.of_ranks(self.room.ranks)

    @property
    def fits(self) -> bool:
        """Whether the memory suffices."""
        return self.needed <= self.room.usable


async def check_memory(
    cluster: Cluster, fleet: Fleet, request: TrainRequest, *, known: Mapping[str, DeviceFacts] | None = None
) -> AsyncGenerator[Record, None]:
    """Yield the estimate; raise TooBig if a node has too little memory. Nodes that do not answer are skipped.

    Nodes whose facts are known are not read again.
    """
    recipe = Recipe.read(request.recipe)
    if request.tokens is not None:
        recipe = with_vocabulary(recipe, request.tokens)
    world = sum(request.ranks_on(node) for node in cluster.nodes.values())
    fits: list[Fit] = []
    for name, facts in (await read_facts(fleet, cluster, FACTS, known=known, only=cluster.nodes)).items():
        node = cluster.nodes[name]
        room = room_of(facts, node, request.ranks_on(node), recipe.precision)
        if room:
            fits.append(fit_of(recipe, world, room))
    for fit in fits:
        if not fit.fits:
            raise TooBig(refusal(fit), hint=advice(recipe, world, fit))
    if fits:
        yield _estimate(fits)


def room_of(facts: DeviceFacts, node: Node, ranks: int, precision: Precision) -> Room | None:
    """Return the memory for a node's ranks: of the smallest GPU they use, or the free main memory."""
    cards = [*_cards(facts, node)][:ranks]
    if cards:
        name, size, own = min(cards, key=lambda card: card[1])
        value_bytes = VALUE_BYTES[own if precision == "auto" else precision]
        return Room(node=facts.device, ranks=ranks, device=name, memory=size, value_bytes=value_bytes)
    reading = facts.read(memory.PROBE)
    if not isinstance(reading, Known) or node.gpus:
        return None
    free = reading.facts.total if reading.facts.available is None else reading.facts.available
    # Most processors have no instructions for 16-bit formats, and compute in fp32 then.
    return Room(node=facts.device, ranks=ranks, device="cpu", memory=free, value_bytes=VALUE_BYTES["fp32"])


def _cards(facts: DeviceFacts, node: Node) -> Iterator[tuple[str, int, Format]]:
    """Yield name, memory and number format of each GPU that the driver shows, or else the cluster file lists."""
    reading = facts.read(gpu.PROBE)
    cards = reading.facts.gpus if isinstance(reading, Known) else ()
    for card in cards:
        if card.memory_bytes:
            yield card.name, card.memory_bytes, format_of_card(float(card.compute_capability or BF16_CAPABILITY))
    if not cards:
        yield from (
            (card.name, int(card.memory_gb * 2**30), format_of_card(BF16_CAPABILITY))
            for card in node.gpus
            if card.memory_gb
        )


def fit_of(recipe: Recipe, world: int, room: Room) -> Fit:
    """Return how the model fits, with the micro-batch that the ranks will choose."""
    gpu_bytes = room.memory if room.gpu else None
    limit = micro_limit(recipe, world=world, value_bytes=room.value_bytes, gpu_bytes=gpu_bytes)
    largest = max(deal(recipe.batch.sequences, (1.0,) * world), key=len)
    micro = max((len(part) for part in pieces(largest, max(1, limit))), default=1)
    need = estimate(recipe, micro=micro, world=world, value_bytes=room.value_bytes, gpu=room.gpu)
    return Fit(room=room, need=need, micro=micro)


def refusal(fit: Fit) -> str:
    """Return a sentence, with numbers, about a model that is too big."""
    need, room = fit.need, fit.room
    who = "a rank needs" if room.gpu or room.ranks == 1 else f"its {room.ranks} ranks need"
    usable = text.size(room.usable)
    has = f"{usable} of its {room.device} are usable" if room.gpu else f"{usable} are free"
    state, activations = text.size(need.state), text.size(need.activations)
    return (
        f"the model is too big for {room.node}: {who} about {text.size(fit.needed)}, and {has} ({need.parameters:,} "
        f"parameters: each rank needs {state} for them and the optimiser, {activations} for a micro-batch of "
        f"{fit.micro})"
    )


def advice(recipe: Recipe, world: int, fit: Fit) -> str:
    """Return the changes that would make the model fit, by the same estimate."""

    def helps(changed: Recipe, room: Room) -> bool:
        return fit_of(changed, world, room).fits

    small = replace(recipe, batch=replace(recipe.batch, micro=1))
    changes = {
        "--set batch.micro=1": helps(small, fit.room),
        "--set gradient_checkpointing=true": helps(replace(recipe, gradient_checkpointing=True), fit.room),
        "--ranks 1": not fit.room.gpu and helps(recipe, replace(fit.room, ranks=1)),
    }
    helpful = " or ".join(change for change, does in changes.items() if does)
    if not helpful and helps(replace(small, gradient_checkpointing=True), fit.room):
        helpful = "--set batch.micro=1 and --set gradient_checkpointing=true together"
    sizes = ", ".join(f"model.{key}" for key in recipe.family.size_keys)
    helpful = helpful or f"a smaller model ({sizes}) or a node with more memory"
    return f"{helpful} would help; --no-check skips this check"


def _estimate(fits: Sequence[Fit]) -> Event:
    """Return the estimate as one record; its message is about the node with the least spare memory."""
    tightest = max(fits, key=lambda fit: fit.needed / max(1, fit.room.usable))
    room, need = tightest.room, tightest.need
    others = f", the tightest of {len(fits)} nodes" if len(fits) > 1 else ""
    ranks = "a rank" if room.gpu or room.ranks == 1 else f"{room.ranks} ranks"
    return events.MemoryEstimated(
        message=f"{need.parameters:,} parameters; {ranks} will take about {text.size(tightest.needed)} of "
        f"{text.size(room.usable)} {f'on a {room.device}' if room.gpu else 'free memory'} of {room.node}{others}",
        parameters=need.parameters,
        nodes={fit.room.node: _node(fit) for fit in fits},
    )


def _node(fit: Fit) -> events.NodeMemory:
    return events.NodeMemory(
        device=fit.room.device,
        ranks=fit.room.ranks,
        micro_batch=fit.micro,
        estimated_rank_bytes=fit.need.total,
        estimated_state_bytes=fit.need.state,
        estimated_activation_bytes=fit.need.activations,
        needed_bytes=fit.needed,
        available_bytes=fit.room.usable,
    )
