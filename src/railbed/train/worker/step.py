"""One step of training: a fixed global batch, whoever computes how much of it.

Every rank adds up the losses of its tokens and divides by the tokens of the whole global batch; the hook sums. So the
step is the same, up to rounding, on any number of ranks with any shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from railbed.collective.base import Collective
from railbed.train.data.sampling import deal, key_of, pieces, window_of
from railbed.train.settings import Settings
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.tokenfile import Tokens
from railbed.train.worker.models.gpt import Gpt
from railbed.train.worker.observe.clock import Clock
from railbed.train.worker.parallel.gradients import Hook

BUCKET_MEGABYTES = 25
MOST_SIZES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step that was taken. On a GPU its numbers may still be on their way: `sums` and `norm` wait for them."""

    step: int
    """The number of steps made with this one; 1 is the first."""
    rate: float
    numbers: torch.Tensor
    """The norm of the gradients, and what was summed over all ranks, in the processor's memory once the clock ended."""
    clock: Clock
    mine: range
    """This rank's sequences of the global batch."""
    sent_bytes: int
    reduced_bytes: int

    def sums(self) -> list[float]:
        """Return what was summed over all ranks: the loss, how many ask for a checkpoint, and what else was told."""
        self.clock.wait()
        return [float(number) for number in self.numbers[1:]]

    def norm(self) -> float:
        """Return the norm of the gradients before they were clipped."""
        self.clock.wait()
        return float(self.numbers[0])


@dataclass(slots=True, kw_only=True)
class Stepper:
    """Takes steps with one model on one rank."""

    settings: Settings
    model: Gpt
    collective: Collective
    tokens: Tokens
    optimiser: torch.optim.Optimizer
    device: torch.device
    shares: Sequence[float]
    micro_limit: int
    runner: nn.Module
    """The model as it is called: compiled, inside DDP, or itself."""
    hook: Hook

    def mine(self) -> range:
        """Return this rank's sequences of the global batch."""
        return deal(self.settings.batch.sequences, self.shares)[self.collective.rank]

    def take(
        self,
        step: int,
        *,
        wants_checkpoint: bool,
        tells: Sequence[float] = (),
        settle: bool = False,
        start: Clock | None = None,
    ) -> Taken:
        """Take step number `step`, counted from 0; `tells` goes into its sum, `start` is the clock of the last one."""
        clock = Clock(self.device, after=start)
        self.hook.begin(clock, settle=settle)
        together = on_device(torch.tensor([0.0, wants_checkpoint, *tells], dtype=torch.float64), self.device)
        mine = self.mine()
        micro_batches = pieces(mine, self.micro_limit)
        for part in micro_batches[:-1]:
            with self._no_sync():
                together[0] += self._learn(step, part, clock)
            clock.mark("backward")
        together[0] += self._learn(step, micro_batches[-1] if micro_batches else range(0), clock)
        clock.mark("backward", self.hook.last_bucket)
        self.collective.sum(together)
        if self.collective.world > 1:
            clock.mark("allreduce_exposed")
        rate = adamw.learning_rate(self.settings.optimiser, step, self.settings.steps)
        norm = self._update(rate)
        # On their way behind this step: a copy that is asked for later would wait for the step after it as well.
        numbers = torch.cat([norm.to(together.dtype).reshape(1), together]).to("cpu", non_blocking=True)
        clock.mark("optimiser")
        return Taken(
            step=step + 1,
            rate=rate,
            numbers=numbers,
            clock=clock,
            mine=mine,
            sent_bytes=self.hook.sent_bytes,
            reduced_bytes=self.hook.reduced_bytes,
        )

    def _learn(self, step: int, part: range, clock: Clock) -> torch.Tensor:
        """Add the gradient of some sequences; return their part of the loss."""
        inputs, targets = self._batch(step, part)
        if self.settings.model.dropout > 0:
            # Random numbers too are a function of seed, step and index: there is no state of them to save.
            torch.manual_seed(key_of(self.settings.seed, step, part.start))
        clock.mark("data")
        total = self.settings.batch.sequences * self.settings.model.context
        loss: torch.Tensor = self.runner(inputs, targets) * (1.0 / total if part else 0.0)
        clock.mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _batch(self, step: int, part: range) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a micro-batch; with nothing to do, one token, so that the rank still takes part in the sum."""
        if not part:
            nothing = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
            return nothing, nothing
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
        norm = adamw.clip(self.model, self.settings.optimiser.clip)
        adamw.set_rate(self.optimiser, rate)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return norm

    def _no_sync(self) -> AbstractContextManager[None]:
        runner = self.runner
        return runner.no_sync() if isinstance(runner, DistributedDataParallel) else nullcontext()

    def warm_up(self) -> None:
        """Let DDP see the order of the gradients before the first step.

        It lays its buckets out anew after the first backward pass. With three ranks and more that changes the order of
        additions: a run that was resumed would differ in the last bit from one that was not.
        """
        if self.collective.world == 1:
            return
        nothing = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
        for _ in range(2):
            (self.runner(nothing, nothing) * 0.0).backward()
            self.optimiser.zero_grad(set_to_none=True)


def wrapped(model: Gpt, hook: Hook, collective: Collective, *, compiled: bool) -> nn.Module:
    """Return the model as it is called."""
    if collective.world == 1:
        if compiled:
            model.compile(dynamic=False)
        return model
    if compiled:
        # Layer by layer, so that gradients leave for the network while others are still computed.
        for block in model.h:
            block.compile(dynamic=False)
        # Shares that follow the speed bring new sizes of micro-batches; at torch's limit of 8 it would stop compiling.
        torch._dynamo.config.recompile_limit = MOST_SIZES  # noqa: SLF001
    device = next(model.parameters()).device
    replica = DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        bucket_cap_mb=BUCKET_MEGABYTES,
        gradient_as_bucket_view=True,
        init_sync=False,
    )
    hook.attach(replica)
    return replica


def on_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on a device, without waiting for it."""
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
