"""What a verb does ahead of its run, while the nodes of a Slurm job are discovered: a round to them takes a while."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from railbed.model.probe import Probe
from railbed.transport.recent import RecentOutputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Work beside the discovery of a job's nodes."""

    load: Callable[[], Coroutine[Any, Any, None]]
    """Loads modules that the verb needs next; what is not loaded in time is left out."""
    probes: tuple[Probe[Any], ...]
    """Read in the same round as what discovery needs."""
    outputs: RecentOutputs = field(default_factory=RecentOutputs)
    """Gets what the nodes print: the run then need not read it again."""
