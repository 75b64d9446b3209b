"""One training step: a fixed global batch, independent of which rank computes which part.

Every rank adds up the losses of its tokens and divides by the tokens of the whole global batch; gradients are summed.
So a step is the same, up to rounding, on any number of ranks with any shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from railbed.train.data.sampling import deal, key_of, pieces, window_of
from railbed.train.recipe import Recipe
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.tokenfile import Tokens
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
    mine: range
    """This rank's sequences of the global batch."""
    sent_bytes: int
    reduced_bytes: int

    def sums(self) -> list[float]:
        """Return the sums over all ranks: the loss, the requests for a checkpoint, and the extra values."""
        self.clock.wait()
        return [float(number) for number in self.numbers[1:]]

    def norm(self) -> float:
        """Return the norm of the gradients before clipping."""
        self.clock.wait()
        return float(self.numbers[0])


@dataclass(slots=True, kw_only=True)
class Stepper:
    """Takes steps with one model on one rank."""

    settings: Recipe
    strategy: Strategy
    tokens: Tokens
    optimiser: torch.optim.Optimizer
    device: torch.device
    shares: Sequence[float]
    micro_limit: int

    def mine(self) -> range:
        """Return this rank's sequences of the global batch."""
        return deal(self.settings.batch.sequences, self.shares)[self.strategy.collective.rank]

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
        mine = self.mine()
        micro_batches = pieces(mine, self.micro_limit)
        for part in micro_batches[:-1]:
            with strategy.accumulate():
                summed[0] += self._learn(step, part, clock)
            clock.mark("backward")
        summed[0] += self._learn(step, micro_batches[-1] if micro_batches else range(0), clock)
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
            mine=mine,
            sent_bytes=gradients.sent_bytes,
            reduced_bytes=gradients.reduced_bytes,
        )

    def _learn(self, step: int, part: range, clock: StepTimer) -> torch.Tensor:
        """Add the gradient of some sequences; return their part of the loss."""
        inputs, targets = self._batch(step, part)
        if self.settings.model.is_random:
            # Random numbers are also a function of seed, step and index: they have no state to save.
            torch.manual_seed(key_of(self.settings.seed, step, part.start))
        clock.mark("data")
        total = self.settings.batch.sequences * self.settings.model.context
        loss: torch.Tensor = self.strategy.runner(inputs, targets) * (1.0 / total if part else 0.0)
        clock.mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _batch(self, step: int, part: range) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a micro-batch; a rank without work gets one token, so that it still participates in the sum."""
        if not part:
            token = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
            return token, token
        settings = self.settings
        context = settings.model.context
        windows = self.tokens.windows(context)
        chosen = [
            window_of(settings.seed, step, index, global_batch=settings.batch.sequences, windows=windows)
            for index in part
        ]
        inputs, targets = self.tokens.batch(chosen, context)
        return on_device(inputs, self.device), on_device(targets, self.device)

    def _update(self, rate: float) -> torch.Tensor:
        norm = self.strategy.clip(self.settings.optimiser.clip)
        adamw.set_rate(self.optimiser, rate)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return norm


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on a device, without waiting for the copy."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
