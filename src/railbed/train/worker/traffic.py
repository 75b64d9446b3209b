"""A load for the network: gradients of a given size, at a given rate, and nothing learned.

The gradients go the way of a real model's: through DDP, its buckets and the hook.
"""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from railbed.collective.base import Collective
from railbed.launch.messages import Messages
from railbed.train.settings import Settings
from railbed.train.worker.observe.clock import Clock
from railbed.train.worker.observe.counters import Counting
from railbed.train.worker.parallel.gradients import Hook
from railbed.train.worker.step import BUCKET_MEGABYTES

PART_BYTES = 4 << 20


class Load(nn.Module):
    """Parameters without a purpose."""

    def __init__(self, gradient_bytes: int) -> None:
        super().__init__()
        sizes = [PART_BYTES] * (gradient_bytes // PART_BYTES) + [gradient_bytes % PART_BYTES]
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(size // 4)) for size in sizes if size >= 4)

    def forward(self) -> torch.Tensor:
        """Return a sum whose gradient costs next to nothing."""
        return torch.stack([part.sum() for part in self.parts]).sum()


def run_traffic(
    settings: Settings, collective: Collective, device: torch.device, messages: Messages, counting: Counting
) -> None:
    """Reduce gradients until the steps are done; a step begins when its time has come and the one before has ended."""
    traffic = settings.traffic
    assert traffic is not None
    load = Load(traffic.gradient_bytes).to(device)
    hook = Hook(collective, settings.wire)
    replica: nn.Module = load
    if collective.world > 1:
        replica = DistributedDataParallel(
            load, bucket_cap_mb=BUCKET_MEGABYTES, gradient_as_bucket_view=True, init_sync=False
        )
        hook.attach(replica)
    begin = time.monotonic()
    messages.phase = "training"
    counting.begin(0)
    for step in range(1, settings.steps + 1):
        if traffic.steps_per_second > 0:
            time.sleep(max(0.0, begin + (step - 1) / traffic.steps_per_second - time.monotonic()))
        _one_step(step, replica, hook, device, messages)
        counting.go_on(step)
    counting.end(settings.steps)
    messages.send("done", step=settings.steps, loss=None, seconds=time.monotonic() - begin)


def _one_step(step: int, replica: nn.Module, hook: Hook, device: torch.device, messages: Messages) -> None:
    clock = Clock(device)
    hook.begin(clock)
    loss = replica()
    clock.mark("forward")
    loss.backward()
    clock.mark("backward", hook.last_bucket)
    clock.mark("allreduce_exposed")
    for parameter in replica.parameters():
        parameter.grad = None
    parts = clock.parts()
    messages.step = step
    messages.send(
        "progress",
        step=step,
        step_seconds=clock.total(),
        allreduce_exposed_seconds=parts["allreduce_exposed"],
        bytes_sent=hook.sent_bytes,
        bytes_reduced=hook.reduced_bytes,
    )
