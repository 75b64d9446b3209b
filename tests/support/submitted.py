"""Submitted runs in the lab with Slurm: their records, and what Slurm is asked to do with their jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.slurm import User, jobs, until
from tests.support.training import Records, events, losses

LONG = "steps=100000"
LEFT = "timeout 60 sh -c \"while pgrep -f 'railbed[.](train|launch)' || pgrep ^rank; do sleep 0.2; done\" >/dev/null"
BESIDE = "pgrep -f 'os[.]read[(]0|slurm[_]script'"
"""Lists what runs beside the ranks of a job: watchdogs, and the batch script."""
WAIT_SECONDS = 180.0
"""Far more than a start takes."""


@dataclass(frozen=True)
class Job:
    """A submitted run."""

    user: User
    number: int
    folder: Path

    @property
    def records(self) -> Records:
        file = self.folder / "records.jsonl"
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith(b"}\n")]

    @property
    def status(self) -> str:
        return str(json.loads((self.folder / "run.json").read_text())["status"])

    @property
    def step(self) -> int:
        return max(losses(self.records), default=0)

    def events(self, name: str) -> Records:
        return events(self.records, name)

    def until(self, met: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Wait for something in the records."""
        deadline = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < deadline, (self.folder / "output.txt").read_text()[-2000:]
            time.sleep(0.5)

    @property
    def saved(self) -> int:
        """The last step whose state is in the run's folder, which all nodes share."""
        return max((event["data"]["step"] for event in self.events("checkpoint_copied")), default=0)

    def control(self, *words: str) -> str:
        result = self.user.run(*words)
        assert result.code == 0, result
        return result.out

    def start_now(self) -> None:
        """Let a requeued job start at once, unless it has: Slurm makes it wait."""
        update = ("scontrol", "update", f"job={self.number}", "StartTime=now")
        running = [f"{self.number} RUNNING"]
        until(lambda: jobs(self.user.lab, str(self.number)) != [f"{self.number} COMPLETING"])
        until(lambda: self.user.run(*update).code == 0 or jobs(self.user.lab, str(self.number)) == running)


def submit(user: User, *words: str, **variables: str) -> Job:
    """Submit a job and do not follow it."""
    result = user.railbed("submit", *words, "--no-follow", "--json", **variables)
    assert result.code == 0, result
    (event,) = result.records
    return Job(user, event["data"]["job"], Path(event["data"]["folder"]))
