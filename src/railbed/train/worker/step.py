"""One training step: a fixed global batch, independent of which rank computes which part.

Every rank adds up the losses of its tokens and divides by the trained tokens of the whole global batch; gradients are
summed. So a step is the same, up to rounding, on any number of ranks with any shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from railbed.errors import RankFailed
from railbed.train.data.sampling import deal, deal_by_size, key_of, window_of
from railbed.train.recipe import Recipe
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.corpus import Corpus
from railbed.train.worker.memory import LossScale, MicroBatches, is_out_of_memory
from railbed.train.worker.observe.clock import StepTimer
from railbed.train.worker.parallel.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """A step that was taken. On a GPU it may still be running: `sums` and `norm` wait for it."""

    step: int
    """The number of steps taken, this one included; 1 is the first."""
    rate: float
    numbers: torch.Tensor
    """The norm of the gradients, and the sums over all ranks; in main memory once the timer has ended."""
    clock: StepTimer
    part: StepShare
    """What this rank computed of the global batch."""
    sent_bytes: int
    reduced_bytes: int
    scale: float | None
    """The factor of the loss; None if it is not scaled."""

    def sums(self) -> list[float]:
        """Return the sums over all ranks: the loss, the requests for a checkpoint, and the extra values."""
        self.clock.wait()
        return [float(number) for number in self.numbers[1:]]

    def norm(self) -> float:
        """Return the norm of the gradients before clipping."""
        self.clock.wait()
        return float(self.numbers[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShare:
    """A rank's part of the global batch of a step."""

    mine: range
    """Its sequences."""
    windows: Sequence[int]
    """The numbers of these sequences in the corpus."""
    tokens: int
    global_tokens: int
    """Tokens of its sequences, and of the global batch, without padding."""
    trained: int
    """Tokens of the global batch that are trained."""

    @property
    def load(self) -> float:
        """Return this rank's fraction of all tokens."""
        return self.tokens / self.global_tokens


@dataclass(slots=True, kw_only=True)
class Stepper:
    """Takes steps with one model on one rank."""

    settings: Recipe
    strategy: Strategy
    tokens: Corpus
    optimiser: torch.optim.Optimizer
    device: torch.device
    shares: Sequence[float]
    micro: MicroBatches
    scale: LossScale = field(default_factory=LossScale)

    def part(self, step: int) -> StepShare:
        """Return this rank's part of the global batch of a step, counted from 0."""
        rank, count = self.strategy.collective.rank, self.settings.batch.sequences
        context = self.settings.model.context
        if not self.settings.model.has_rows:
            mine = deal(count, self.shares)[rank]
            tokens, total = len(mine) * context, count * context
            return StepShare(
                mine=mine, windows=self._windows(step, mine), tokens=tokens, global_tokens=total, trained=total
            )
        windows = self._windows(step, range(count))
        sizes = self.tokens.sizes(windows) or [context] * count
        mine = deal_by_size(sizes, self.shares)[rank]
        return StepShare(
            mine=mine,
            windows=windows[mine.start : mine.stop],
            tokens=sum(sizes[mine.start : mine.stop]),
            global_tokens=sum(sizes),
            trained=self.tokens.count_trained(windows, context),
        )

    def _windows(self, step: int, part: range) -> list[int]:
        seed, count = self.settings.seed, self.settings.batch.sequences
        windows = self.tokens.windows(self.settings.model.context)
        return [window_of(seed, step, index, global_batch=count, windows=windows) for index in part]

    def take(
        self,
        step: int,
        *,
        wants_checkpoint: bool,
        extra: Sequence[float] = (),
        settle: bool = False,
        start: StepTimer | None = None,
    ) -> StepResult:
        """Take step number `step`, counted from 0.

        `extra` values are summed over all ranks with the loss; `start` is the timer of the previous step.
        """
        clock = StepTimer(self.device, after=start)
        strategy, gradients = self.strategy, self.strategy.gradients
        gradients.begin(clock, settle=settle)
        summed = on_device(torch.tensor([0.0, wants_checkpoint, *extra], dtype=torch.float64), self.device)
        part, factor = self.part(step), self.scale.factor
        summed[0] += self.micro.compute(
            part.mine,
            lambda micro_batches: self._learn_all(step, part, micro_batches, clock),
            lambda: self.optimiser.zero_grad(set_to_none=True),
        )
        strategy.reduce()
        clock.mark("backward", gradients.last_bucket)
        strategy.collective.sum(summed)
        if strategy.collective.world > 1:
            clock.mark("allreduce_exposed")
        rate = adamw.learning_rate(self.settings.optimiser, step, self.settings.steps)
        norm = self._update(rate)
        # Copied now, after this step: a later copy on a GPU would also wait for the next step.
        numbers = torch.cat([norm.to(summed.dtype).reshape(1), summed]).to("cpu", non_blocking=True)
        clock.mark("optimiser")
        return StepResult(
            step=step + 1,
            rate=rate,
            numbers=numbers,
            clock=clock,
            part=part,
            sent_bytes=gradients.sent_bytes,
            reduced_bytes=gradients.reduced_bytes,
            scale=factor if self.scale.is_used else None,
        )

    def _learn_all(self, step: int, part: StepShare, micro_batches: Sequence[range], clock: StepTimer) -> torch.Tensor:
        """Add the gradients of this rank's sequences; return their part of the loss."""
        largest = max((len(micro) for micro in micro_batches), default=0)
        before, last = micro_batches[:-1], micro_batches[-1] if micro_batches else range(0)
        if self.strategy.overlaps and largest > self.micro.fitting:
            # Gradients that are being summed cannot be taken back. So sequences that may be too many for the memory
            # are computed first, and the sum begins with an empty pass after them.
            before, last = micro_batches, range(0)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for micro in before:
            with self.strategy.accumulate():
                total += self._learn(step, part, micro, clock)
            clock.mark("backward")
        total += self._learn(step, part, last, clock, begins_sum=self.strategy.overlaps)
        self.micro.fitting = max(self.micro.fitting, largest)
        return total / self.scale.factor

    def _learn(
        self, step: int, part: StepShare, micro: range, clock: StepTimer, *, begins_sum: bool = False
    ) -> torch.Tensor:
        """Add the gradient of some sequences; return their part of the loss."""
        batch = self._batch(part, micro)
        if self.settings.model.is_random:
            # Random numbers are also a function of seed, step and index: they have no state to save.
            torch.manual_seed(key_of(self.settings.seed, step, micro.start))
        clock.mark("data")
        loss: torch.Tensor = self.strategy.runner(*batch) * (self.scale.factor / part.trained if micro else 0.0)
        clock.mark("forward")
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except (RuntimeError, MemoryError) as error:
            if begins_sum and is_out_of_memory(error):
                sentence = f"{self.device} ran out of memory with {len(micro)} sequences at a time, which fitted before"
                raise RankFailed(sentence) from None
            raise
        return loss.detach()

    def _batch(self, part: StepShare, micro: range) -> tuple[torch.Tensor, ...]:
        """Return a micro-batch; a rank without work gets one token, so that it still participates in the sum."""
        if not micro:
            token = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
            return token, token
        windows = part.windows[micro.start - part.mine.start : micro.stop - part.mine.start]
        batch = self.tokens.batch(windows, self.settings.model.context)
        return tuple(on_device(tensor, self.device) for tensor in batch)

    def _update(self, rate: float) -> torch.Tensor:
        """Update the parameters, unless the gradients have overflowed; return the norm of the gradients."""
        if self.scale.is_used:
            self.strategy.divide(self.scale.factor)
        norm = self.strategy.clip(self.settings.optimiser.clip)
        adamw.set_rate(self.optimiser, rate)
        # Only with a loss scale is the norm read now, which waits for a GPU: the update depends on it.
        if not self.scale.is_used or self.scale.allows_update(float(norm)):
            self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return norm


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on a device, without waiting for the copy."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
