"""Events of ranks on nodes: train, and the collectives of bench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDone(Event):
    """Every rank of a generation is done."""

    name: ClassVar = "done"
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUp(Event):
    """The agent on a node answers."""

    name: ClassVar = "node_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """A node stopped answering, never answered, or was not ready in time."""

    name: ClassVar = "node_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCut(Event):
    """The other nodes cannot reach this one over the rail."""

    name: ClassVar = "node_cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOut(Event):
    """A node is excluded for the rest of the run."""

    name: ClassVar = "node_out"
