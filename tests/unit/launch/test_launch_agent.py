"""An agent as a process: what it hides from other users, and what it reports for ranks that cannot do so."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RANK = 'import os, time; os.write({messages}, b\'{"kind": "alive", "phase": "starting"}\\n\'); time.sleep(60)'
SECRET = "a" * 64


class Agent:
    """An agent, and both ends of its connection."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "railbed.launch.node.agent", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, **request: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, kind: str) -> dict[str, Any]:
        """Return the next message of a kind; send heartbeats in the meantime."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + 30
        for line in self.process.stdout:
            assert time.monotonic() < deadline, f"nothing of kind {kind}"
            message: dict[str, Any] = json.loads(line)
            if message["kind"] == "beat":
                self.ask(do="beat")
            if message["kind"] == kind:
                return message
        raise AssertionError(f"the agent ended without {kind}")

    def start_rank(self, generation: int) -> None:
        command = [sys.executable, "-c", RANK, "{job}"]
        ranks = [{"rank": 3, "command": command, "job": json.dumps({"secret": SECRET}), "env": {}}]
        self.ask(do="start", generation=generation, ranks=ranks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def agent(folder: Path) -> Iterator[Agent]:
    agent = Agent(folder)
    yield agent
    agent.process.kill()
    agent.process.communicate(timeout=20)


def children(pid: int) -> list[int]:
    return [int(line) for line in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_job_and_its_secret_are_for_nobody_else(agent: Agent, folder: Path) -> None:
    agent.start_rank(1)
    agent.hear("message")
    job = folder / "rank3.g1.json"
    assert stat.S_IMODE(job.stat().st_mode) == 0o600
    assert json.loads(job.read_text()) == {"secret": SECRET}
    (rank,) = children(agent.process.pid)
    assert SECRET.encode() not in Path(f"/proc/{rank}/cmdline").read_bytes()
    assert SECRET.encode() not in Path(f"/proc/{rank}/environ").read_bytes()


def test_a_rank_that_is_stopped_while_it_starts_is_reported(agent: Agent) -> None:
    agent.start_rank(4)
    agent.hear("message")
    (rank,) = children(agent.process.pid)
    os.kill(rank, signal.SIGSTOP)
    message = agent.hear("halted")
    assert (message["generation"], message["rank"]) == (4, 3)
