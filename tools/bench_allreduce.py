"""Compare the engine behind DDP's hook with a bare MPI all-reduce, between the same processes.

    python -m tools.bench_allreduce [--cluster FILE] [--megabytes 1 25 25] [--rounds 20]

Without a cluster, it uses two ranks on this machine, over shared memory; with one, a rank on each node, over the
fabric. The ranks and their MPI world are started as for training.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railbed import clusterfile
from railbed.fleet import Fleet, read_facts
from railbed.launch.fabric import FACTS, fabric_of
from railbed.launch.files.ship import Parcel, parcel
from railbed.launch.job import RankStart, rank_specs
from railbed.launch.messages import Message
from railbed.launch.placement import Deployment, Placement, rendezvous_port
from railbed.launch.supervise import Supervisor
from railbed.model.cluster import LOCAL_HOST, Cluster, Node
from railbed.model.record import Event, Record
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector

RANK = Path(__file__).with_name("bench_allreduce_rank.py")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cluster", type=Path)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 25, 25])
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    sizes = [int(megabytes * (1 << 20)) // 4 * 4 for megabytes in arguments.megabytes]
    measured = asyncio.run(bench(arguments.cluster, sizes, arguments.rounds))
    total = sum(sizes) / 1e6
    print(f"{measured['path']}\n{len(sizes)} buckets, {total:.1f} MB, medians of {arguments.rounds} rounds")
    for name in ("bare", "engine"):
        print(f"{name:>8} {1e3 * measured[name]:9.2f} ms {total / measured[name]:9.1f} MB/s")
    print(f"the engine reaches {100 * measured['bare'] / measured['engine']:.1f} % of the bare all-reduce")


@dataclass
class Bench:
    """The benchmark as a job."""

    settings: Mapping[str, Any]
    script: Parcel
    measured: dict[str, Any] = field(default_factory=dict)
    preload: Sequence[str] = ()
    advice: str = ""
    may_regroup: bool = False

    def generation(self, number: int, placements: Sequence[Placement], port: int) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks."""
        starts: dict[str, list[RankStart]] = {placement.node: [] for placement in placements}
        by_node = {placement.node: placement for placement in placements}
        for spec in rank_specs("bench", number, placements, port):
            place = by_node[spec.node]
            job = json.dumps({**self.settings, "spec": {**spec.common(), "timeout_seconds": 120.0}})
            script = f"{place.path_of(self.script)}/{RANK.name}"
            command = [place.interpreter[-1], script, "{job}", "--messages", "{messages}"]
            if spec.rank == 0:
                command += ["--listener", "{listener}"]
            starts[spec.node].append(
                RankStart(rank=spec.rank, command=command, job=job, env={"PYTHONPATH": place.code})
            )
        return starts

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:  # noqa: ARG002 -- part of a job
        """Store the measurements of rank 0."""
        if message.get("kind") == "measured" and rank == 0:
            self.measured = message
        return []


async def bench(file: Path | None, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """Run the ranks and return their measurements."""
    cluster = (
        clusterfile.load(file)
        if file
        else Cluster(name="local", nodes={"local": Node(host=LOCAL_HOST, python=sys.executable)})
    )
    ranks = dict.fromkeys(cluster.nodes, 1 if file else 2)
    script = parcel("code", {RANK.name: RANK})
    deployment = Deployment(cluster, ranks, folder="bench/allreduce", parcels=[script])
    async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
        await deployment.ship(fleet)
        placements = deployment.placements(fabric_of(cluster, await read_facts(fleet, cluster, FACTS)))
        job = Bench({"sizes": sizes, "rounds": rounds}, script)
        supervisor = Supervisor(fleet, job, placements, len(placements), port=rendezvous_port(cluster))
        async for record in supervisor.run():
            if isinstance(record, Event) and record.name in ("restart", "log"):
                print(record.message.rstrip())
    return job.measured


if __name__ == "__main__":
    main()
