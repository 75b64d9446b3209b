"""One rank of `tools.bench_allreduce`: `python bench_allreduce_rank.py JOB.json --messages FD`, on a node.

Measures two things in turns, in the same processes and the same memory: bare calls of MPI_Allreduce, one size after
the other, and the same sizes as buckets through the engine that DDP's hook calls, all submitted at once and then
awaited, as in backward.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from railbed.collective.connect import connect
from railbed.collective.mpi import MpiGroup
from railbed.collective.rendezvous import Rendezvous, alarm_to
from railbed.launch.messages import Messages
from railbed.launch.spec import RankSpec


def main() -> None:
    """Measure, and send the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--listener", type=int, default=-1)
    arguments = parser.parse_args()
    job: dict[str, Any] = json.loads(arguments.job.read_text())
    spec = RankSpec(**{**job["spec"], "listener": arguments.listener})
    os.environ.update(spec.environment)
    messages = Messages(arguments.messages, spec.rank)
    messages.start_heartbeat()
    torch.set_num_threads(1)
    group, choice = connect("mpi", Rendezvous.of(spec), torch.device("cpu"), job["sizes"][:1], alarm_to(messages))
    assert isinstance(group, MpiGroup)
    buckets = [torch.ones(size // 4) for size in job["sizes"]]
    measured = measure(group, buckets, job["rounds"])
    messages.send("measured", path=choice.reason, sizes=job["sizes"], **measured)
    messages.send("rank_done", step=0)
    group.close()


def measure(group: MpiGroup, buckets: list[torch.Tensor], rounds: int) -> dict[str, float]:
    """Return the seconds of a round, bare and through the engine; they take turns."""
    from mpi4py import MPI

    def sum_bare(world: MPI.Comm) -> None:
        for bucket in buckets:
            world.Allreduce(MPI.IN_PLACE, [MPI.buffer.fromaddress(bucket.data_ptr(), 4 * bucket.numel()), MPI.FLOAT])

    def bare() -> None:
        group.run(sum_bare, "the bare sums", 600.0)

    def through_engine() -> None:
        for future in [group.reduce_bucket(bucket) for bucket in buckets]:
            future.wait()

    times: dict[str, list[float]] = {"bare": [], "engine": []}
    ways: dict[str, Callable[[], None]] = {"bare": bare, "engine": through_engine}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            group.sum(torch.zeros(1))  # a barrier: all ranks start together
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}


if __name__ == "__main__":
    main()
    os._exit(0)
