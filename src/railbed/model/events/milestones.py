"""Events that show how far a run is, and that it did not end well.

Every verb compares its events with them, so they are few, and quick to load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from railbed.model.record import Event

LOST_OTHERS = "a rank lost the others"
"""In the message of a restart whose cause did not show: the node is that of a victim."""
RETURNED = "returned"
"""How the message of a restart ends that uses a node again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStarted(Event):
    """The parameters of a training run; `run` is the name under which nodes store its state."""

    name: ClassVar = "training"
    run: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    ranks: int | None = None
    minimum: int | None = None
    transport: str | None = None
    resumes: str | None = None
    sample: float | None = None
    """Seconds between samples; 0 if nothing is sampled."""

    @property
    def steps(self) -> int:
        """Return the number of steps that the recipe asks for; 0 if it is damaged."""
        steps = self.recipe.get("steps")
        return steps if isinstance(steps, int) else 0

    @property
    def gradient_bytes(self) -> int | None:
        """Return the size of a gradient if the recipe only generates network traffic."""
        traffic = self.recipe.get("traffic")
        size = traffic.get("gradient_bytes") if isinstance(traffic, Mapping) else None
        return size if isinstance(size, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStarted(Event):
    """Ranks were started on these nodes."""

    name: ClassVar = "generation"
    generation: int = 0
    nodes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFailed(Event):
    """A generation ended early: the subject is the node at fault, the message the reason."""

    name: ClassVar = "restart"
    generation: int | None = None

    @property
    def is_planned(self) -> bool:
        """Whether nothing failed: the ranks start again to use a node that has returned."""
        return self.message.endswith(RETURNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The ranks loaded the state of a step."""

    name: ClassVar = "resumed"
    rank: int | None = None
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(Event):
    """The state of a step is saved and verified on a node."""

    name: ClassVar = "checkpoint"
    rank: int | None = None
    step: int
    hash: str | None = None
    bytes: int | None = None
    folder: str | None = None
    seconds: float | None = None
    stall_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted(Event):
    """A trial begins; the message is the test, the subject the participating nodes."""

    name: ClassVar = "trial"
    number: int | None = None
    seconds: float | None = None
    done: int | None = None
    total: int | None = None
    elapsed: float | None = None
    expected: float | None = None
    left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrusion(Event):
    """A stranger connected to a port of the ranks and was rejected."""

    name: ClassVar = "intrusion"
    rank: int | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """When and why a node was lost."""

    step: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FellShort(Event):
    """Training took all its steps, but lost nodes, rejected an intruder or failed a check."""

    name: ClassVar = "ending"
    lost: Mapping[str, LostNode] = field(default_factory=dict)
    failed: Sequence[str] = ()
    intruders: Sequence[str] = ()
