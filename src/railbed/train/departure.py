"""A request to leave the nodes: rank 0 saves the state at the next step, copies it off its node, and training ends.

A job's time limit, a scheduler that needs the nodes and a person who stops a job all request it; what happens next is
decided by whoever requested it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from railbed.model import events
from railbed.model.record import Measurement, Record


class Departure:
    """Whether training has to leave, and whether it can: its state is safe, or cannot be saved."""

    def __init__(self) -> None:
        self.is_requested = False
        self.has_begun = False
        """Whether ranks were started: before that, there is nothing to save."""
        self.copied: int | None = None
        """The newest step whose state is in the shared folder."""
        self._step = 0
        self._least = 0
        """The state of an earlier step is not worth waiting for."""
        self._ask: Callable[[], None] = lambda: None

    def request(self) -> None:
        """Request it; a second request changes nothing."""
        if not self.is_requested:
            self.is_requested, self._least = True, self._step
            self._ask()

    def on_request(self, ask: Callable[[], None]) -> None:
        """Set how the ranks are asked for a checkpoint."""
        self._ask = ask

    def is_over(self, record: Record, recipe: Mapping[str, Any]) -> bool:
        """Take a record of the training, and return whether it can end now."""
        self.note(record)
        if not self.is_requested:
            return False
        match record:
            case events.CheckpointCopied(step=step):
                return step >= self._least
            case events.CheckpointFailed():
                return True
            case events.GenerationStarted():
                self._ask()
            case _:
                pass
        return bool(recipe.get("traffic"))  # a synthetic load has no state

    def note(self, record: Record) -> None:
        """Note how far the training is, and which state is safe."""
        match record:
            case Measurement(name="step_seconds", labels={"step": int(step)}):
                self._step = step
            case events.CheckpointCopied(step=step):
                self.copied = step
            case events.GenerationStarted():
                self.has_begun = True
            case _:
                pass
