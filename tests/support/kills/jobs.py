"""`submit` that is killed: its job is known to `runs`, which can stop it, or there is none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.support.cli import Result
from tests.support.kills.scenario import Duration, Killed, Moment, Scenario
from tests.support.namespaces import command_inside, environment
from tests.support.slurm import NODES, User, jobs, until
from tests.support.submitted import BESIDE, LEFT


@dataclass
class SubmitKilled(Scenario):
    """A training that is submitted and followed; its job runs on when that is killed."""

    leaves_nothing: ClassVar = False
    user: User = field(kw_only=True)
    followed: bool = True
    """Without following the job it ends within seconds: more kills come while the job is being submitted."""

    @property
    def arguments(self) -> Sequence[str]:
        options = ("--nodes", "1", "--no-check", "--sample", "0")
        return [
            "submit",
            "train",
            "small.yaml",
            "--set",
            "steps=20",
            *options,
            *([] if self.followed else ["--no-follow"]),
        ]

    def railbed(self, *arguments: str | Path) -> Result:
        return self.user.railbed(*map(str, arguments))

    def clean(self) -> None:
        self.user.lab.run_inside("controller", f"scancel --user {self.user.name}")
        until(lambda: not jobs(self.user.lab))
        for name in ("runs", ".railbed"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @contextmanager
    def following(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start it on the controller, without a login: that would outlive the command."""
        line = self.user.line(*self.user.program, *self.arguments, "--json")
        command = command_inside(self.user.lab.name, "controller", line)
        with subprocess.Popen(
            command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            yield process

    def run_undisturbed(self) -> Duration:
        start = time.monotonic()
        result = self.railbed(*self.arguments, "--json")
        assert result.code == 0, result
        return Duration(time.monotonic() - start)

    def kill_after(self, moment: Moment) -> Killed | None:
        with self.following() as process:
            time.sleep(moment.seconds)
            if process.poll() is not None:
                return None
            for pid in children(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait(60)
        return self.killed(moment.seconds, set(self.runs()))

    def verify(self, killed: Killed) -> None:  # noqa: ARG002
        listing = self.railbed("runs", "--json")
        assert listing.code == 0, listing
        listed = {run["id"]: run for run in map(json.loads, listing.out.splitlines())}
        in_queue = {int(line.split()[0]) for line in jobs(self.user.lab)}
        numbers = {run.get("job") for run in listed.values()}
        assert in_queue <= numbers, f"job {in_queue - numbers} is not listed: {listing.out}"
        for name in listed:
            stopped = self.railbed("runs", "--stop", name)
            assert stopped.code == 0 or "has ended" in stopped.err + stopped.out, stopped
        assert jobs(self.user.lab) == []
        for node in NODES:
            assert self.user.lab.run_inside(node, LEFT).code == 0
            assert self.user.lab.run_inside(node, BESIDE).out == ""
        again = self.railbed("submit", "check", "reachable", "--nodes", "1", "--json")
        assert again.code == 0, again


def children(pid: int) -> list[int]:
    """Return the processes that a process has started: `nsenter` waits for the command."""
    pids: list[int] = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            pids += map(int, path.read_text().split())
    return pids
