"""When to save and when to evaluate. All ranks come to the same answers at the same step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from railbed.train.recipe import Recipe

REQUESTED_AHEAD = 2
"""Steps until all ranks know that rank 0 requested a checkpoint: on a GPU the numbers of a step are read one later."""


@dataclass(slots=True)
class Schedule:
    """The schedule of one rank.

    Where the wire holds something back (`bf16-feedback`), only a step that settles has a state that can be saved, and
    which steps settle must be agreed by all ranks before they are taken.
    """

    settings: Recipe
    _since: float = field(default_factory=time.monotonic)
    _due: bool = False
    _requested: set[int] = field(default_factory=set)

    @property
    def _holds_back(self) -> bool:
        return self.settings.wire == "bf16-feedback"

    def time_is_up(self) -> bool:
        """Say whether rank 0 asks for a checkpoint with this step; the time begins anew then."""
        seconds = self.settings.checkpoint.seconds
        if seconds is None or time.monotonic() - self._since < seconds:
            return False
        self._since = time.monotonic()
        return True

    def read(self, step: int, *, requested: bool) -> None:
        """Note whether rank 0 requested a checkpoint with a step."""
        if requested:
            self._due = True
            self._requested.add(step + REQUESTED_AHEAD)

    def settles(self, step: int) -> bool:
        """Say whether a step sends all that the wire held back, because its state will be saved."""
        return self._holds_back and (step == self.settings.steps or step in self._requested or self._in_turn(step))

    def checkpoint_due(self, step: int) -> bool:
        """Say whether the state after this step is to be saved."""
        if self._holds_back:
            return self.settles(step)
        self._due = self._due or self._in_turn(step)
        return self._due

    def saved(self) -> None:
        """Note that a state was handed over."""
        self._due = False

    def evaluation_due(self, step: int) -> bool:
        """Say whether the validation loss is measured after this step."""
        every = self.settings.evaluation.every
        return every > 0 and (step % every == 0 or step == self.settings.steps)

    def _in_turn(self, step: int) -> bool:
        every = self.settings.checkpoint.steps
        return every is not None and step % every == 0
