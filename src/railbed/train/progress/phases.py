"""What the ranks do when they are not taking steps, for who waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railbed.model.progress import progress
from railbed.model.record import Event

STARTING = ("starting", "joining", "loading")
"""In this order, and all ranks go through them: the last rank counts."""
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
        self._told = ""

    def hear(self, rank: int, said: Mapping[str, Any]) -> list[Event]:
        """Take what a rank said; return what is new about all of them."""
        match said:
            case {"kind": "alive", "phase": str(phase)}:
                self._phases[rank] = phase
        now = self._slowest()
        if now == self._told:
            return []
        self._told = now
        return [progress(WORDS[now])] if now in WORDS else []

    def _slowest(self) -> str:
        """Return the phase of the rank that the others wait for; after the start that is the first one's."""
        there = set(self._phases.values())
        missing = len(self._phases) < self._world
        first = next((phase for phase in STARTING if phase in there), "")
        return "starting" if missing and first else first or self._phases.get(0, self._told)
