"""A network load: gradients of a given size at a given rate, without training.

The gradients take the same path as a real model's: DDP, its buckets and the communication hook.
"""

from __future__ import annotations

import time

import torch
from torch import nn

from railbed.collective.group import Collective
from railbed.launch.messages import Messages
from railbed.train.recipe import Recipe
from railbed.train.worker.observe.clock import StepTimer
from railbed.train.worker.observe.counters import CounterReporter
from railbed.train.worker.parallel.gradients import GradientSum
from railbed.train.worker.parallel.replicate import replica_of

PART_BYTES = 4 << 20


class TrafficModel(nn.Module):
    """Parameters that are never trained."""

    def __init__(self, gradient_bytes: int) -> None:
        super().__init__()
        sizes = [PART_BYTES] * (gradient_bytes // PART_BYTES) + [gradient_bytes % PART_BYTES]
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(size // 4)) for size in sizes if size >= 4)

    def forward(self) -> torch.Tensor:
        """Return a sum whose gradient is cheap."""
        return torch.stack([part.sum() for part in self.parts]).sum()


def run_traffic(
    settings: Recipe, collective: Collective, device: torch.device, messages: Messages, counting: CounterReporter
) -> None:
    """Sum gradients for the number of steps; a step starts on schedule, but never before the previous one ended."""
    traffic = settings.traffic
    assert traffic is not None
    load = TrafficModel(traffic.gradient_bytes).to(device)
    gradients = GradientSum(collective, settings.wire)
    replica = replica_of(load, gradients) if collective.world > 1 else load
    begin = time.monotonic()
    messages.phase = "training"
    counting.begin(0)
    for step in range(1, settings.steps + 1):
        if traffic.steps_per_second > 0:
            time.sleep(max(0.0, begin + (step - 1) / traffic.steps_per_second - time.monotonic()))
        _step(step, replica, gradients, device, messages)
        counting.report_when_due(step)
    counting.end(settings.steps)
    messages.send("rank_done", step=settings.steps, loss=None, seconds=time.monotonic() - begin)


def _step(step: int, replica: nn.Module, gradients: GradientSum, device: torch.device, messages: Messages) -> None:
    clock = StepTimer(device)
    gradients.begin(clock)
    loss = replica()
    clock.mark("forward")
    loss.backward()
    clock.mark("backward", gradients.last_bucket)
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
        bytes_sent=gradients.sent_bytes,
        bytes_reduced=gradients.reduced_bytes,
    )
