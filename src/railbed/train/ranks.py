"""The ranks of a generation: their specs, and the checkpoint that they continue from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from railbed.launch.files.ship import Parcel
from railbed.launch.job import RankStart, rank_specs, rank_starts
from railbed.launch.placement import Placement
from railbed.train.spec import ResumeSource, TrainSpec

COPIES, MODEL = "state", "model"
"""Folders in a run's folder that all nodes share."""
FUNCTION = "railbed.train.worker.loop:run"
PRELOAD = ("railbed.train.worker.loop", "torch._dynamo")
"""Modules that nodes load before ranks start: the worker, torch, and what torch's optimisers load on first use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """What stays the same from one generation to the next."""

    name: str
    recipe: Mapping[str, Any]
    tokens: Parcel
    base: Parcel | None = None
    """The model to tune; None if there is none, or if the nodes have it already."""
    transport: str = "auto"
    prompt: tuple[int, ...] = ()
    shared: str = ""
    """The run's folder if all nodes share it: copies of checkpoints and the final weights are stored there."""
    request: str = ""
    """Name of the file that requests a checkpoint, in the job's folder on the node of rank 0."""

    @property
    def copies(self) -> str:
        """Return the folder with the copies of checkpoints; empty if there is none."""
        return copies_in(self.shared) if self.shared else ""


def copies_in(folder: str) -> str:
    """Return the folder with copies of checkpoints in a run's folder."""
    return f"{folder}/{COPIES}"


@dataclass
class KnownCheckpoints:
    """Which checkpoints are known to be complete, on which nodes."""

    steps: dict[str, dict[int, str]] = field(default_factory=dict)
    """Hashes of the states by step, for each node."""
    copied: int | None = None
    """The newest step with an intact copy in the folder that all nodes share."""
    evaluated: set[int] = field(default_factory=set)
    """Steps whose validation loss is known."""
    has_baseline: bool = False
    """Whether the perplexity of the model before it was tuned is known."""

    def note(self, node: str, step: int, digest: str) -> None:
        """Note a checkpoint; a node keeps the last two."""
        own = self.steps.setdefault(node, {})
        own[step] = digest
        for old in sorted(own)[:-2]:
            del own[old]

    def newest(self, nodes: Sequence[str]) -> tuple[int, str] | None:
        """Return the newest step that one of these nodes has, and the first node that has it."""
        states = [(step, node) for node in nodes for step in self.steps.get(node, {})]
        if not states:
            return None
        newest = max(step for step, _ in states)
        return newest, next(node for step, node in states if step == newest)


def ranks_of(
    run: TrainingRun, generation: int, placements: Sequence[Placement], checkpoints: KnownCheckpoints, port: int
) -> dict[str, list[RankStart]]:
    """Return the ranks of a generation, by node; they continue from the newest checkpoint that one of them has."""
    specs = rank_specs(run.name, generation, placements, port)
    first = {spec.node: spec.rank for spec in reversed(specs)}
    resume = resume_source(run, first, checkpoints)
    by_node = {placement.node: placement for placement in placements}
    own = [
        TrainSpec(
            **spec.common(),
            recipe=dict(run.recipe),
            shares=shares_of(run.recipe, placements),
            names=names_of(placements),
            transport=run.transport,
            tokens=by_node[spec.node].path_of(run.tokens),
            base=by_node[spec.node].path_of(run.base) if run.base else "",
            base_digest=run.base.digest if run.base else "",
            checkpoints=f"{by_node[spec.node].folder}/checkpoints",
            shared=run.copies,
            request=f"{by_node[spec.node].folder}/{run.request}" if run.request else "",
            export=f"{run.shared or by_node[spec.node].folder}/{MODEL}",
            resume=resume,
            owes_evaluation=resume is not None and resume.step not in checkpoints.evaluated,
            owes_perplexity=not checkpoints.has_baseline,
            prompt=run.prompt,
        )
        for spec in specs
    ]
    return rank_starts(FUNCTION, own, placements)


def resume_source(run: TrainingRun, first: Mapping[str, int], checkpoints: KnownCheckpoints) -> ResumeSource | None:
    """Return where the newest state is: on a node, whose first rank sends it to all others, or in the shared folder.

    A copy counts only if it is newer, since nodes read their own disks faster. Any rank can read it.
    """
    newest = checkpoints.newest(list(first))
    if checkpoints.copied is not None and (newest is None or checkpoints.copied > newest[0]):
        return ResumeSource(step=checkpoints.copied, rank=0, folder=run.copies)
    return ResumeSource(step=newest[0], rank=first[newest[1]]) if newest else None


def names_of(placements: Sequence[Placement]) -> tuple[str, ...]:
    """Return the name of each rank, from its node: it stays the same when ranks get other numbers."""
    return tuple(
        placement.node if placement.ranks == 1 else f"{placement.node}:{local}"
        for placement in placements
        for local in range(placement.ranks)
    )


def shares_of(recipe: Mapping[str, Any], placements: Sequence[Placement]) -> tuple[float, ...]:
    """Return the weight of each rank: its node's in the recipe, or 1."""
    shares = recipe.get("shares")
    weights = shares if isinstance(shares, Mapping) else {}
    return tuple(float(weights.get(placement.node, 1.0)) for placement in placements for _ in range(placement.ranks))
