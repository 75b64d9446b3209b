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
from railbed.fleet import Fleet
from railbed.launch.fabric import fabric_of, read_facts
from railbed.launch.files.ship import module_command, own_code, parcel, ship
from railbed.launch.job import RankStart, new_secret
from railbed.launch.protocol import Message
from railbed.launch.roster import Member
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
    """The benchmark as a job of the launch."""

    jobs: Mapping[str, Mapping[str, Any]]
    """By node: python, script, code, and the job without the rank's identity."""
    measured: dict[str, Any] = field(default_factory=dict)
    may_regroup: bool = False

    def generation(self, number: int, members: Sequence[Member]) -> Mapping[str, Sequence[RankStart]]:
        """Return the ranks."""
        world, secret = sum(member.ranks for member in members), new_secret()
        starts: dict[str, list[RankStart]] = {}
        for member in members:
            first = sum(len(ranks) for ranks in starts.values())
            place = self.jobs[member.name]
            for rank in range(first, first + member.ranks):
                meeting = {
                    **place["meeting"],
                    "address": members[0].address,
                    "name": f"bench/{number}",
                    "rank": rank,
                    "world": world,
                    "machine": first,
                    "secret": secret,
                }
                job = json.dumps({**place["job"], "meeting": meeting})
                command = [place["python"], place["script"], "{job}", "--messages", "{messages}"]
                start = RankStart(rank=rank, command=command, job=job, env={"PYTHONPATH": place["code"]})
                starts.setdefault(member.name, []).append(start)
        return starts

    def hear(self, node: str, rank: int, message: Message) -> Sequence[Record]:  # noqa: ARG002 -- the launch's interface
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
    members = [
        Member(name=name, address=str(node.ports[0].address) if node.ports else "127.0.0.1", ranks=1 if file else 2)
        for name, node in cluster.nodes.items()
    ]
    code, script = own_code(), parcel("code", {RANK.name: RANK})
    async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
        shipped = await ship(fleet, cluster.nodes, cluster.training.workdir, [code, script], folder="bench/allreduce")
        fabric = fabric_of(cluster, await read_facts(cluster, fleet))
        jobs, agents = {}, {}
        for name, base in shipped.bases.items():
            node = cluster.nodes[name]
            interface = node.ports[0].netdev if node.ports else "lo"
            meeting = {"port": cluster.training.rendezvous_port, "interface": interface, "timeout": 120.0, "node": name}
            jobs[name] = {
                "python": node.python,
                "code": f"{base}/{code.name}",
                "script": f"{base}/{script.name}/{RANK.name}",
                "meeting": meeting,
                "job": {"sizes": sizes, "rounds": rounds, "environment": fabric[name].environment},
            }
            own = f"{base}/bench/allreduce/{name}"
            agents[name] = module_command(node.python, f"{base}/{code.name}", "railbed.launch.node.agent", [own])
        job = Bench(jobs)
        async for record in Supervisor(fleet, job, members, agents, len(members)).run():
            if isinstance(record, Event) and record.name in ("restart", "log"):
                print(record.message.rstrip())
    return job.measured


if __name__ == "__main__":
    main()
