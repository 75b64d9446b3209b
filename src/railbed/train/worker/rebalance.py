"""One rank's part in splitting the global batch by measured speed."""

from __future__ import annotations

from statistics import median

import torch

from railbed.launch.messages import Messages
from railbed.train.shares import Balance, Cost, Split, cost_words, split_words
from railbed.train.spec import TrainSpec
from railbed.train.worker.io.saver import State
from railbed.train.worker.step import Stepper, StepResult

OWN_WORK = ("data", "forward", "backward")
"""The parts of a step that measure a rank's speed: the sum also waits for others, and every rank has the optimiser."""


class Rebalancer:
    """Adapts the split to measured speeds if the recipe requests it; otherwise the job's shares stay as they are."""

    def __init__(self, job: TrainSpec, stepper: Stepper, state: State, messages: Messages) -> None:
        self._names, self._rank = job.called, job.rank
        self._stepper, self._state, self._messages = stepper, state, messages
        self._balance: Balance | None = None
        if job.settings.shares == "speed" and job.world > 1:
            self._balance = self._new_balance([1.0] * job.world)
            stepper.shares = self._balance.split.counts
        self._own = (0.0, 0.0)
        """This rank's seconds per sequence, and its wait for the sum, in the step it measured last."""
        self._sent: tuple[tuple[int, ...], str] | None = None

    def begin(self, step: int) -> None:
        """Start with the split of the restored state; ranks it does not include count as average."""
        if self._balance is None:
            return
        paces = self._state.paces.tolist()
        if known := [pace for pace in paces if pace > 0]:
            self._balance = self._new_balance([pace or median(known) for pace in paces])
            self._send(step, self._balance.split, self._balance.split.paces, None)
        self.apply(step)

    def contribution(self) -> list[float]:
        """Return this rank's contribution to the step's sum: its numbers at its positions, zeros elsewhere."""
        if self._balance is None:
            return []
        numbers = [0.0] * (2 * len(self._names))
        numbers[2 * self._rank : 2 * self._rank + 2] = self._own
        return numbers

    def read(self, taken: StepResult) -> None:
        """Measure this rank's part of a finished step, and update the balance from the numbers of all ranks."""
        if self._balance is None:
            return
        parts = taken.clock.parts()
        work = sum(parts.get(part, 0.0) for part in OWN_WORK)
        sequences = taken.part.load * self._stepper.settings.batch.sequences  # of average length
        self._own = (work / sequences if sequences else 0.0, parts.get("allreduce_exposed", 0.0))
        numbers = taken.sums()[2:]
        review = self._balance.add(taken.step, numbers[0::2], numbers[1::2])
        if review:
            self._send(taken.step, review.split, review.paces, review.cost)

    def apply(self, step: int) -> None:
        """Use the split of the next step, counted from 0, and store its speeds in the state."""
        if self._balance is None:
            return
        split = self._balance.at(step)
        if self._stepper.shares != split.counts:
            self._stepper.shares = split.counts
            self._state.paces.copy_(torch.tensor(split.paces, dtype=torch.float64))

    def _new_balance(self, paces: list[float]) -> Balance:
        sequences = self._stepper.settings.batch.sequences
        return Balance(sequences, Split.by_pace(sequences, paces))

    def _send(self, step: int, split: Split, paces: tuple[float, ...], cost: Cost | None) -> None:
        """Report the split, the first time and whenever it or the slow rank changed."""
        words = cost_words(self._names, cost)
        news = (split.counts, self._names[cost.rank] if cost else "")
        if self._rank == 0 and news != self._sent:
            self._sent = news
            fields = {"counts": split.counts, "paces": paces, "names": self._names, "cost": words}
            self._messages.send("shares", step=step, sentence=split_words(self._names, split.counts, paces), **fields)
