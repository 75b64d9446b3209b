"""A realistic training run, written through the real store with the records that training derives from messages."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ruamel.yaml import YAML

from railbed.model.cluster import Cluster
from railbed.model.record import Event, Finding, Record, Verdict
from railbed.store import OpenRun, open_run
from railbed.store.run import Status
from railbed.train.network.ledger import Ledger
from railbed.train.progress.records import records_of
from railbed.train.progress.steps import Downtime, IdleTimes
from tests.support.events import event

STARTED = 1_790_000_000.0
NODES = ("node1", "node2")
CLUSTER = """\
name: lab
rails:
  rail0: {subnet: 10.77.0.0/24, speed: 10}
nodes:
  node1:
    host: 10.0.2.11
    ports:
      - {netdev: rail0, rdma: rxe0, rail: rail0, address: 10.77.0.1}
  node2:
    host: 10.0.2.12
    ports:
      - {netdev: rail0, rdma: rxe0, rail: rail0, address: 10.77.0.2}
"""
SAMPLE = """\
def read_lines(self, path, encoding=None):
    \"\"\"Return the lines of a file as a list.

    If encoding is not given, the locale is used.
    \"\"\"
    with open(path, 'r', encoding=encoding) as file:
        return [line for line in file if line.strip() < self.limit & True]
"""
RECIPE = {
    "description": "a small model on the source of Python, in about two minutes",
    "steps": 300,
    "seed": 1,
    "model": {"layers": 4, "heads": 4, "width": 128, "context": 128, "vocabulary": "auto", "dropout": 0.0},
    "data": {"files": [], "tokenizer": None, "validation": 0.05, "prompt": "def read"},
    "batch": {"sequences": 32, "micro": "auto"},
    "optimiser": {"learning_rate": 0.001, "warmup_steps": 20, "final_fraction": 0.1, "clip": 1.0},
    "checkpoint": {"steps": 50, "seconds": None},
    "traffic": None,
}

ESTIMATES = {
    node: {
        "device": "cpu",
        "ranks": 1,
        "needed_bytes": 875_000_000,
        "available_bytes": 7_500_000_000,
        "estimated_rank_bytes": 875_000_000,
    }
    for node in NODES
}


class Clock:
    """Replaces `time` in the store, so that a run can have any duration."""

    strftime = staticmethod(time.strftime)
    localtime = staticmethod(time.localtime)
    monotonic = staticmethod(time.monotonic)

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


@contextmanager
def made_run(
    verb: str, arguments: Sequence[str] = (), cluster_text: str = CLUSTER, cluster: str = "lab"
) -> Iterator[tuple[OpenRun, Clock]]:
    """Begin a run at a time of its own; the caller moves the clock and ends it."""
    clock = Clock(STARTED)
    with (
        patch("railbed.store.writing.time", clock),
        open_run(verb, cluster_name=cluster, cluster_text=cluster_text, arguments=[verb, *arguments]) as run,
    ):
        yield run, clock


def plain_run(records: Iterable[Record] = (), *, verb: str = "train", status: Status = "done", code: int = 0) -> Path:
    """Write a run of these records, and return its folder."""
    with made_run(verb) as (run, clock):
        for record in records:
            run.append(record)
        clock.now += 12.5
        run.finish(status, code)
    return run.folder


@dataclass
class _Training:
    """Tells a training run from its start to its end."""

    clock: Clock
    chance: random.Random
    steps: int
    idle: IdleTimes = field(default_factory=lambda: IdleTimes(len(NODES)))

    def start(self, number: int) -> Iterator[Record]:
        yield self.event(
            "generation", f"generation {number}", "2 ranks on node1, node2", generation=number, nodes=NODES
        )
        self.clock.now += 4.2
        for rank, node in enumerate(NODES):
            yield from self.rank_message(node, rank, "chosen", **chosen())

    def take(self, first: int, last: int) -> Iterator[Record]:
        for step in range(first, last + 1):
            self.clock.now += 0.42
            for rank, node in enumerate(NODES):
                yield from self.rank_message(node, rank, "progress", step=step, **self.progress(step, rank))
            if step % 50 == 0 or step == self.steps:
                loss = 0.12 + smooth_loss(step)
                yield from self.rank_message("node1", 0, "evaluation", step=step, validation_loss=loss)
                for rank, node in enumerate(NODES):
                    fields = {"hash": "9f86d081884c7d65", "bytes": 25_400_000, "seconds": 0.31, "folder": "/w/ckpt"}
                    yield from self.rank_message(node, rank, "checkpoint", step=step, **fields)

    def progress(self, step: int, rank: int) -> dict[str, object]:
        wait = 0.055 + self.chance.random() * 0.02 + (0.5 if step % 97 == 0 else 0.0) - 0.015 * rank
        parts = {
            "data": 0.004,
            "forward": 0.11 + self.chance.gauss(0, 0.003),
            "backward": 0.21 + self.chance.gauss(0, 0.005),
            "allreduce_exposed": wait,
            "optimiser": 0.018,
            "other": 0.002,
        }
        seconds = sum(parts.values())
        return {
            "loss": smooth_loss(step) + self.chance.gauss(0, 0.05),
            "learning_rate": 1e-3 * min(1, step / 20) * (0.55 + 0.45 * math.cos(math.pi * step / self.steps)),
            "gradient_norm": 0.6 + 3 / (1 + step / 8) + abs(self.chance.gauss(0, 0.08)),
            "global_tokens_per_second": 32 * 128 / seconds,
            "mfu": 0.31 * 0.4 / seconds,
            "step_seconds": seconds,
            **{f"{name}_seconds": value for name, value in parts.items()},
            "bytes_sent": 6_348_288,
            **({"peak_memory_bytes": 700_000_000 + 1_000_000 * rank} if step == 1 else {}),
        }

    def rank_message(self, node: str, rank: int, kind: str, **fields: object) -> Iterator[Record]:
        message = {"kind": kind, "rank": rank, "time": self.clock.now, **fields}
        for record in (*records_of(node, rank, message), *self.idle.receive(node, rank, message)):
            object.__setattr__(record, "time", self.clock.now)
            yield record

    def event(self, name: str, subject: str, message: str, **data: object) -> Event:
        return event(name=name, subject=subject, message=message, data=data, time=self.clock.now)


def smooth_loss(step: int) -> float:
    return 2.9 + 5.4 * math.exp(-step / 55)


def chosen() -> dict[str, object]:
    return {
        "device": "cpu",
        "device_name": "Neoverse-N1",
        "precision": "fp32",
        "compile": False,
        "threads": 1,
        "peak_flops": 4.1e10,
        "peak_source": "measured here: fp32 matrix product, the rank's threads",
        "torch_version": "2.13.0+cpu",
        "transport": "gloo",
        "parameters": 3_174_144,
        "flops_per_token": 19_400_000,
        "vocabulary": 8192,
        "context": 128,
        "global_batch": 32,
        "micro_batch": 16,
    }


def training_run(*, steps: int = 300, fails_at: int | None = 173) -> Path:
    """Write a run on two nodes with a failure, checkpoints and a sample; return its folder."""
    with made_run("train", ["tiny", "--cluster", "lab.yaml"]) as (run, clock):
        downtime = Downtime(lambda: clock.now)
        for record in _story(clock, steps, fails_at):
            run.append(record)
            for known in downtime.add_record(record):
                run.append(replace(known, time=clock.now))
        clock.now += 1.5
        run.finish("done", 0)
    return run.folder


def _story(clock: Clock, steps: int, fails_at: int | None) -> Iterator[Record]:
    training = _Training(clock, random.Random(7), steps)  # noqa: S311
    yield from findings()
    yield training.event("training", "x", "", run="x", recipe={**RECIPE, "steps": steps})
    yield training.event("estimate", "", "3,174,144 parameters; a rank will need about 0.9 GB", nodes=ESTIMATES)
    yield training.event("notice", "", "the gradients go over TCP (gloo): no RDMA transport was asked for")
    yield from training.start(1)
    if fails_at:
        yield from training.take(1, fails_at)
        clock.now += 1.1
        why = "node2: rank 1 was ended by SIGKILL"
        yield training.event("restart", "node2", why, generation=1)
        clock.now += 2.6
        yield from training.start(2)
        first = fails_at // 50 * 50
        yield from training.rank_message("node1", 0, "resumed", step=first)
        yield from training.take(first + 1, steps)
    else:
        yield from training.take(1, steps)
    yield from path(clock)
    yield from training.rank_message("node1", 0, "sample", step=steps, text=SAMPLE, tokens=[1, 2, 3])
    yield from training.rank_message("node1", 0, "exported", folder="/var/lib/railbed/runs/x/node1/model")
    yield training.event("done", "", "every rank is done", generation=2)


def path(clock: Clock) -> Iterator[Record]:
    """Tell how the gradients travelled, as the ledger of training does."""
    ledger = Ledger(Cluster.model_validate(YAML(typ="safe").load(CLUSTER)), {}, demanded=False)
    ledger.generation(NODES)
    for rank, node in enumerate(NODES):
        for begin, packets, sent in ((True, 0, 0), (False, 470_000, 1_960_000_000)):
            message = {"kind": "counters", "begin": begin, "transport": "mpi", "tcp_segments": packets // 5000}
            net = {"rail0": {"tx_bytes": sent, "mtu": 4200}}
            tcp = {"ranks": {"rail0": sent // 10**6}, "others": {"rail0": sent // 10**4}, "unclear": 0}
            segments = message["tcp_segments"]
            connections = {"node_segments": [segments, segments], "segments": segments, **tcp}
            rdma = {"rxe0/1": {"hw_counters/sent_pkts": packets}}
            ledger.receive(
                node, rank, {"kind": "progress", "bytes_sent": 1_904_000_000, "bytes_reduced": 1_904_000_000}
            )
            for record in ledger.receive(node, rank, {**message, "rdma": rdma, "net": net, "connections": connections}):
                object.__setattr__(record, "time", clock.now)
                yield record
    for record in ledger.closing():
        object.__setattr__(record, "time", clock.now)
        yield record


def findings() -> Iterator[Finding]:
    why = "Small packets cost processor time on every gradient."
    for node in NODES:
        yield finding(Verdict.OK, check="kernel_equal", subject=node, observed="6.1.0-41-arm64")
        yield finding(Verdict.OK, check="reachable", subject=node, observed="answers")
        yield finding(Verdict.SKIPPED, check="pfc", subject=f"{node}/rail0", observed="Soft-RoCE has no PFC")
    yield finding(
        Verdict.WARN,
        check="mtu",
        subject="node2/rail0",
        expected="MTU 9000",
        observed="MTU 1500",
        why=why,
        remedy="ip link set dev rail0 mtu 9000",
    )


def finding(verdict: Verdict, **changes: Any) -> Finding:
    finding = Finding(
        check="mtu", subject="node1", verdict=verdict, expected="", observed="", why="It matters.", time=STARTED
    )
    return replace(finding, **changes)
