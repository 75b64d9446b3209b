"""Measures how fast an all-reduce is; `python -m railbed.collective.timing SECONDS BYTES…` does so for MPI.

MPI is tested in a separate process, which the rank starts and outlives: a library that cannot open a device ends its
process, or hangs. The process runs until its input ends, because the others may still need it. Torch is not loaded
here, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from railbed.collective.mpi import forget_shared_memory, linger

REPEATS = 5
FIRST_BUCKET = 1 << 20
"""DDP's first bucket; it is small so that the network has something to do early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long it took to sum this many bytes over all ranks."""

    size: int
    seconds: float
    """The median."""
    repeats: int

    @property
    def rate(self) -> float:
        """Return bytes of gradient per second."""
        return self.size / self.seconds if self.seconds else 0.0


def sizes_of(gradient_bytes: int, bucket_bytes: int) -> list[int]:
    """Return the sizes to measure, the smallest first: those of the buckets that the gradients are split into."""
    full_buckets, rest = divmod(max(gradient_bytes - FIRST_BUCKET, 0), bucket_bytes)
    sizes = {min(gradient_bytes, FIRST_BUCKET), rest, bucket_bytes if full_buckets else 0}
    return sorted(max(4, size // 4 * 4) for size in sizes if size)


def measure(
    reduce: Callable[[int], None], agree: Callable[[bool], bool], sizes: Sequence[int], seconds: float
) -> list[Timing]:
    """Sum each size several times within the time limit; rank 0's clock decides for all when to stop.

    `reduce` sums that many bytes, `agree` returns rank 0's argument. Sizes that would take too long are left out.
    """
    timings: list[Timing] = []
    deadline = time.perf_counter() + seconds
    for size in sizes:
        left = deadline - time.perf_counter()
        expected = size / timings[-1].rate if timings else 0.0
        if not agree(expected * 2 < left):
            break
        reduce(size)
        times: list[float] = []
        while agree(not times or (len(times) < REPEATS and time.perf_counter() + times[-1] < deadline)):
            start = time.perf_counter()
            reduce(size)
            times.append(time.perf_counter() - start)
        timings.append(Timing(size=size, seconds=statistics.median(times), repeats=len(times)))
    return timings


def main(seconds: float, sizes: Sequence[int]) -> None:
    """Measure MPI, as the rank that the environment names, and print the timings."""
    import mpi4py

    mpi4py.rc.finalize = False
    from mpi4py import MPI

    world, memory = MPI.COMM_WORLD, bytearray(max(sizes))
    world.Barrier()
    forget_shared_memory()

    def reduce(size: int) -> None:
        world.Allreduce(MPI.IN_PLACE, [memory, size // 4, MPI.FLOAT])

    def agree(going_on: bool) -> bool:
        decision = bytearray([going_on])
        world.Bcast([decision, MPI.BYTE], root=0)
        return bool(decision[0])

    timings = measure(reduce, agree, sizes, seconds)
    sys.stdout.write(json.dumps([asdict(timing) for timing in timings]) + "\n")
    sys.stdout.flush()
    linger(world, lambda: bool(select.select([sys.stdin], [], [], 0)[0]))


if __name__ == "__main__":
    main(float(sys.argv[1]), [int(size) for size in sys.argv[2:]])
    os._exit(0)
