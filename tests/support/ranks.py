"""Ranks on this machine, without agents: real processes on 127.0.0.1, their messages, and small jobs for them."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railbed.launch.job import ENTRY, new_secret
from railbed.train.ranks import FUNCTION
from railbed.train.spec import ResumeSource, TrainSpec
from tests.support.forked import Forked, fork_server
from tests.support.ports import free_port

SLOW = "tests.support.slow_rank"
"""A rank that is slow on purpose."""


@dataclass
class Rank:
    """A rank's process and its messages."""

    process: subprocess.Popen[bytes] | Forked
    reader: int
    log: Path
    messages: list[dict[str, Any]] = field(default_factory=list)
    _arrived: queue.Queue[bytes] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        """Read from now on: a rank whose messages are not read stops when the pipe is full."""
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        with os.fdopen(self.reader, "rb") as lines:
            for line in lines:
                self._arrived.put(line)
        self._arrived.put(b"")

    def read(self, until: Callable[[dict[str, Any]], bool] | None = None) -> None:
        """Take messages until one that fits, or to the end."""
        while line := self._arrived.get(timeout=90):
            self.messages.append(json.loads(line))
            if until is not None and until(self.messages[-1]):
                return

    def messages_of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["kind"] == kind]

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(30)


@dataclass
class Starter:
    """Starts jobs below a folder."""

    folder: Path
    tokens: Path
    module: str = ""
    """A module to run in place of a rank of training."""
    forks: bool = True
    """Whether ranks come from a fork server; one with its own interpreter loads torch for itself."""
    started: list[Rank] = field(default_factory=list)

    def start(
        self,
        ranks: int,
        recipe: Mapping[str, Any],
        *,
        shares: Sequence[float] = (),
        resume: ResumeSource | None = None,
        slow: Sequence[int] = (),
        machines: Sequence[int] = (),
        port: int = 0,
        before_others: Callable[[Rank], None] = lambda _: None,
        **fields: Any,
    ) -> list[Rank]:
        """Start the ranks of one job, each with its own checkpoints, as if on a node of its own; some of them slow.

        `machines` gives for each rank the first rank of its machine, where some are to share one. `before_others` is
        called when only rank 0 runs.
        """
        port, secret = port or free_port(), new_secret()
        jobs = [
            TrainSpec(
                recipe={**recipe, "data": {**recipe["data"], "sample": 0}},
                run="test",
                rank=rank,
                world=ranks,
                local_rank=rank - machines[rank] if machines else 0,
                shares=tuple(shares or [1.0] * ranks),
                master_port=port,
                secret=secret,
                interface="lo",
                threads=1,
                tokens=str(self.tokens),
                resume=resume,
                **{"checkpoints": str(self.folder / f"node{rank}"), "device": "cpu", **fields},
            )
            for rank in range(ranks)
        ]
        first = self._spawn(jobs[0], SLOW if 0 in slow else self.module)
        before_others(first)
        return [first, *(self._spawn(job, SLOW if job.rank in slow else self.module) for job in jobs[1:])]

    def _spawn(self, job: TrainSpec, own: str) -> Rank:
        module, *names = [own] if own else [ENTRY, "railbed.train.spec:TrainSpec", FUNCTION]
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(self.started)
        path, log = self.folder / f"job{number}.json", self.folder / f"log{number}.txt"
        path.write_text(job.to_json())
        read, write = os.pipe()
        with log.open("wb") as output:
            if self.forks:
                arguments = [*names, str(path), "--messages", "{messages}"]
                rank = Rank(fork_server().fork(module, arguments, output.fileno(), write), read, log)
            else:
                command = [sys.executable, "-m", module, *names, str(path), "--messages", str(write)]
                rank = Rank(subprocess.Popen(command, stdout=output, stderr=output, pass_fds=[write]), read, log)
        os.close(write)
        self.started.append(rank)
        return rank

    def run(self, ranks: int, recipe: Mapping[str, Any], **fields: Any) -> list[Rank]:
        """Run a job to its end; every rank must end well."""
        started = self.start(ranks, recipe, **fields)
        for rank in started:
            rank.read()
            assert rank.process.wait(60) == 0, rank.log.read_text()
        return started

    def close(self) -> None:
        for rank in self.started:
            rank.kill()


def losses(rank: Rank) -> list[float]:
    return [message["loss"] for message in rank.messages_of("progress")]


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
