"""A rank's part in sharing the global batch by speed: what it tells, what it hears, and the split it works by."""

from __future__ import annotations

from statistics import median

import torch

from railbed.launch.messages import Messages
from railbed.train.shares.balance import Balance, Cost, Split
from railbed.train.shares.wording import cost_words, split_words
from railbed.train.spec import RankSpec
from railbed.train.worker.io.checkpoint import State
from railbed.train.worker.step import Stepper, Taken

OWN_WORK = ("data", "forward", "backward")
"""What a rank's speed is measured by; the sum is a wait for others too, and the optimiser is no part of a share."""


class Sharing:
    """Follows the measured speeds where the recipe says so; otherwise the job's shares stay as they are."""

    def __init__(self, job: RankSpec, stepper: Stepper, state: State, messages: Messages) -> None:
        self._names, self._rank = job.called, job.rank
        self._stepper, self._state, self._messages = stepper, state, messages
        self._balance: Balance | None = None
        if job.settings.shares == "speed" and job.world > 1:
            self._balance = self._begun([1.0] * job.world)
            stepper.shares = self._balance.split.counts
        self._own = (0.0, 0.0)
        self._told: tuple[tuple[int, ...], str] | None = None

    def begin(self, step: int) -> None:
        """Begin with the split of the state; a rank that it does not know is taken for one of middling speed."""
        if self._balance is None:
            return
        paces = self._state.paces.tolist()
        if known := [pace for pace in paces if pace > 0]:
            self._balance = self._begun([pace or median(known) for pace in paces])
            self._tell(step, self._balance.split, self._balance.split.paces, None)
        self.set(step)

    def tells(self) -> list[float]:
        """Return what this rank puts into the step's sum: its own numbers, at its own places."""
        if self._balance is None:
            return []
        told = [0.0] * (2 * len(self._names))
        told[2 * self._rank : 2 * self._rank + 2] = self._own
        return told

    def hear(self, taken: Taken) -> None:
        """Take in a step that is over: one's own time, and what all told with it."""
        if self._balance is None:
            return
        parts = taken.clock.parts()
        work = sum(parts.get(part, 0.0) for part in OWN_WORK)
        self._own = (work / len(taken.mine) if taken.mine else 0.0, parts.get("allreduce_exposed", 0.0))
        told = taken.sums()[2:]
        look = self._balance.hear(taken.step, told[0::2], told[1::2])
        if look:
            self._tell(taken.step, look.split, look.paces, look.cost)

    def set(self, step: int) -> None:
        """Let the step that comes next, counted from 0, work by its split; the state keeps what it follows from."""
        if self._balance is None:
            return
        split = self._balance.at(step)
        if self._stepper.shares != split.counts:
            self._stepper.shares = split.counts
            self._state.paces.copy_(torch.tensor(split.paces, dtype=torch.float64))

    def _begun(self, paces: list[float]) -> Balance:
        sequences = self._stepper.settings.batch.sequences
        return Balance(sequences, Split.by_pace(sequences, paces))

    def _tell(self, step: int, split: Split, paces: tuple[float, ...], cost: Cost | None) -> None:
        """Say who takes how much, the first time and whenever something is new."""
        words = cost_words(self._names, cost)
        news = (split.counts, self._names[cost.rank] if cost else "")
        if self._rank == 0 and news != self._told:
            self._told = news
            fields = {"counts": split.counts, "paces": paces, "names": self._names, "cost": words}
            self._messages.send("shares", step=step, sentence=split_words(self._names, split.counts, paces), **fields)
