"""A rank at work: join, prove that all are in one job, then measure one collective after the other."""

from __future__ import annotations

import secrets
import time

import torch

from railbed.bench.collective.spec import CollectiveSpec, Operation
from railbed.bench.collective.worker.operations import Prepared, Unable, prepare
from railbed.collective.base import Collective
from railbed.collective.connect import connect
from railbed.collective.rendezvous import Rendezvous, alarm_to
from railbed.errors import RankFailed
from railbed.launch.messages import Messages

LARGEST_NUMBER = 2**20
"""Whole numbers up to here survive as float32, whatever an engine sums with."""
TRIAL_BYTES = 1 << 20
"""What an engine is tried with before it is taken."""
WARM_UPS = 2
MOST_ITERATIONS = 20_000


def run(job: CollectiveSpec, messages: Messages) -> None:
    """Do everything that the job says."""
    device = _device(job)
    group, choice = connect(job.engine, Rendezvous.of(job), device, [TRIAL_BYTES], alarm_to(messages))
    try:
        _prove(group, choice.path, device, messages)
        for operation in job.operations:
            for size in operation.sizes:
                _measure_size(operation, size, group, device, messages)
        messages.send("done")
    finally:
        group.close()


def _device(job: CollectiveSpec) -> torch.device:
    if job.engine in {"auto", "nccl"} and torch.cuda.is_available():
        device = torch.device("cuda", job.local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device
    return torch.device("cpu")


def _prove(group: Collective, path: str, device: torch.device, messages: Messages) -> None:
    """Say a random number, and those of all others as a collective brought them: only one job knows them all."""
    own = 1 + secrets.randbelow(LARGEST_NUMBER - 1)
    seen = _each(group, device, float(own))
    version = f"torch {torch.__version__}"
    messages.send("joined", own=own, seen=[int(one) for one in seen], engine=group.name, path=path, version=version)


def _each(group: Collective, device: torch.device, own: float) -> list[float]:
    """Return a number of every rank."""
    numbers = torch.zeros(group.world, device=device)
    numbers[group.rank] = own
    group.sum(numbers)
    return [float(one) for one in numbers.cpu()]


def _measure_size(operation: Operation, size: int, group: Collective, device: torch.device, messages: Messages) -> None:
    try:
        prepared = prepare(operation.name, size, group, device)
        right = prepared.check()
    except (Unable, NotImplementedError) as error:
        messages.send("skipped", operation=operation.name, size=size, sentence=str(error).splitlines()[0])
        return
    if min(_each(group, device, float(right))) < 1:
        raise RankFailed(f"{operation.name} of {size} bytes over {group.name} gave a wrong result")
    for repeat in range(1, operation.repeats + 1):
        seconds, iterations = _measured(prepared, operation.seconds, group, device)
        if group.rank == 0:
            messages.send(
                "result",
                operation=operation.name,
                size=prepared.size,
                seconds=seconds,
                iterations=iterations,
                repeat=repeat,
            )


def _measured(prepared: Prepared, seconds: float, group: Collective, device: torch.device) -> tuple[float, int]:
    """Return the seconds of one call, by the slowest rank, and of how many calls that is the mean."""
    _timed(prepared, WARM_UPS, group, device)
    once = _timed(prepared, 1, group, device)
    iterations = max(1, min(MOST_ITERATIONS, int(seconds / max(once, 1e-7))))
    return _timed(prepared, iterations, group, device) / iterations, iterations


def _timed(prepared: Prepared, calls: int, group: Collective, device: torch.device) -> float:
    _each(group, device, 0.0)  # all begin together
    start = time.perf_counter()
    for _ in range(calls):
        prepared.call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return max(_each(group, device, time.perf_counter() - start))
