"""What the ranks do while they are not taking steps, as progress messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railbed.model.progress import progress
from railbed.model.record import Event

STARTING = ("starting", "joining", "loading")
"""Phases at the start, in order; the slowest rank counts."""
WORDS = {
    "starting": "ranks are loading torch",
    "joining": "ranks are joining each other",
    "loading": "ranks are loading the model and the text",
    "evaluating": "evaluating",
    "finishing": "finishing",
    "saving": "writing the last checkpoint",
    "sampling": "writing a sample",
    "exporting": "exporting the weights",
}


class Phases:
    """The ranks of one generation."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._phases: dict[int, str] = {}
        self._reported = ""

    def receive(self, rank: int, message: Mapping[str, Any]) -> list[Event]:
        """Add a message of a rank; return a progress event if the phase of the slowest rank changed."""
        match message:
            case {"kind": "alive", "phase": str(phase)}:
                self._phases[rank] = phase
        now = self._slowest()
        if now == self._reported:
            return []
        self._reported = now
        return [progress(WORDS[now])] if now in WORDS else []

    def _slowest(self) -> str:
        """Return the phase of the rank that the others wait for; after the start, the phase of rank 0."""
        there = set(self._phases.values())
        missing = len(self._phases) < self._world
        first = next((phase for phase in STARTING if phase in there), "")
        return "starting" if missing and first else first or self._phases.get(0, self._reported)
