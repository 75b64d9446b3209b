"""Events of bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlanned(Event):
    """What the benchmark will measure, and how long that will take."""

    name: ClassVar = "bench"
    suite: str = ""
    trials: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Remeasuring(Event):
    """Pairs that lag behind are measured again."""

    name: ClassVar = "remeasuring"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVisitDone(Event):
    """The first visit of an experiment is measured; the data is what the second visit needs."""

    name: ClassVar = "first_visit"
    experiment: Mapping[str, Any] = field(default_factory=dict)
    paths: Sequence[Sequence[str]] = ()
