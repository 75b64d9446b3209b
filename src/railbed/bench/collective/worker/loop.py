"""The work of a rank: join, prove that all are in one job, then measure one collective after the other."""

from __future__ import annotations

import secrets
import time

import torch

from railbed.bench.collective.spec import CollectiveSpec, Operation
from railbed.bench.collective.worker.operations import PreparedCollective, Unable, prepare
from railbed.collective.connect import connect
from railbed.collective.group import Collective
from railbed.collective.rendezvous import Rendezvous, alarm_to
from railbed.errors import RankFailed
from railbed.launch.messages import Messages

LARGEST_NUMBER = 2**20
"""Integers up to here are exact in float32, the least precise type that an engine sums with."""
TEST_BYTES = 1 << 20
"""Size of the test of an engine before it is chosen."""
WARM_UPS = 2
MOST_ITERATIONS = 20_000


def run(spec: CollectiveSpec, messages: Messages) -> None:
    """Measure the operations of the spec."""
    device = _device(spec)
    group, choice = connect(spec.engine, Rendezvous.of(spec), device, [TEST_BYTES], alarm_to(messages))
    try:
        _prove(group, choice.path, device, messages)
        for operation in spec.operations:
            for size in operation.sizes:
                _measure_size(operation, size, group, device, messages)
        messages.send("rank_done")
    finally:
        group.close()


def _device(spec: CollectiveSpec) -> torch.device:
    if spec.engine in {"auto", "nccl"} and torch.cuda.is_available():
        device = torch.device("cuda", spec.local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device
    return torch.device("cpu")


def _prove(group: Collective, path: str, device: torch.device, messages: Messages) -> None:
    """Report a random number, and those of all ranks as a collective delivered them: only one job has them all."""
    own = 1 + secrets.randbelow(LARGEST_NUMBER - 1)
    received = _each(group, device, float(own))
    version = f"torch {torch.__version__}"
    messages.send(
        "joined", own=own, seen=[int(number) for number in received], engine=group.name, path=path, version=version
    )


def _each(group: Collective, device: torch.device, own: float) -> list[float]:
    """Return one number from every rank."""
    numbers = torch.zeros(group.world, device=device)
    numbers[group.rank] = own
    group.sum(numbers)
    return [float(number) for number in numbers.cpu()]


def _measure_size(operation: Operation, size: int, group: Collective, device: torch.device, messages: Messages) -> None:
    try:
        prepared = prepare(operation.name, size, group, device)
        is_correct = prepared.check()
    except (Unable, NotImplementedError) as error:
        messages.send("skipped", operation=operation.name, size=size, sentence=str(error).splitlines()[0])
        return
    if min(_each(group, device, float(is_correct))) < 1:
        raise RankFailed(f"{operation.name} of {size} bytes over {group.name} gave a wrong result")
    for repeat in range(1, operation.repeats + 1):
        seconds, iterations = _measure(prepared, operation.seconds, group, device)
        if group.rank == 0:
            messages.send(
                "result",
                operation=operation.name,
                size=prepared.size,
                seconds=seconds,
                iterations=iterations,
                repeat=repeat,
            )


def _measure(
    prepared: PreparedCollective, seconds: float, group: Collective, device: torch.device
) -> tuple[float, int]:
    """Return the mean seconds of one call on the slowest rank, and the number of calls."""
    _time_calls(prepared, WARM_UPS, group, device)
    once = _time_calls(prepared, 1, group, device)
    iterations = max(1, min(MOST_ITERATIONS, int(seconds / max(once, 1e-7))))
    return _time_calls(prepared, iterations, group, device) / iterations, iterations


def _time_calls(prepared: PreparedCollective, calls: int, group: Collective, device: torch.device) -> float:
    _each(group, device, 0.0)  # all start together
    start = time.perf_counter()
    for _ in range(calls):
        prepared.call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return max(_each(group, device, time.perf_counter() - start))
