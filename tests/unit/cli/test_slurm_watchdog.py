"""When a watchdog puts a job back into the queue: only if two signs agree that its batch host is dead."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed.cli.slurm import watchdog
from railbed.cli.slurm.watchdog import Watchdog, is_down, read_job, read_place
from railbed.cli.slurm.watchdogs import take_reason

NODE = (
    "NodeName=node1 Arch=x86_64 CPUAlloc=0 NodeAddr=127.0.0.1 NodeHostName=node1 Port={port} State={state} Weight=1\n"
)
JOB = "JobId=7 JobName=x JobState={state} Restarts={restarts} BatchHost={host} WorkDir=/ JobState=X\n"


class FakeSlurm:
    """Answers of `scontrol`, and what was done."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.node, self.state, self.restarts, self.host = "MIXED", "RUNNING", 0, "node1"
        self.refuses = False
        self.calls: list[str] = []

    def ask(self, *command: str) -> str | None:
        match command:
            case ("scontrol", "--oneliner", "show", "node", _):
                return NODE.format(port=self.port, state=self.node)
            case ("scontrol", "--oneliner", "show", "job", _):
                return JOB.format(state=self.state, restarts=self.restarts, host=self.host)
            case ("scontrol", "requeue", _) if self.refuses:
                return None
        self.calls.append(" ".join(command))
        return ""


@pytest.fixture
def slurmd() -> Iterator[socket.socket]:
    """The port of a slurmd that answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def slurm(slurmd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(slurmd.getsockname()[1])
    monkeypatch.setattr(watchdog, "_ask", fake.ask)
    monkeypatch.setattr(watchdog, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 0.02)
    return fake


class Watching:
    """A watchdog in a thread, with its input."""

    def __init__(self, folder: Path) -> None:
        reading, self.input = os.pipe()
        self._reading = reading
        self.thread = threading.Thread(target=Watchdog(7, "node1", str(folder)).run, args=(reading,), daemon=True)
        self.thread.start()

    def ends(self, seconds: float = 60.0) -> bool:
        self.thread.join(seconds)
        return not self.thread.is_alive()


def test_a_dead_host_that_slurm_reports_is_requeued_once(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.node = "DOWN*+NOT_RESPONDING"
    watching = Watching(tmp_path)
    assert watching.ends()
    assert slurm.calls == ["scontrol requeue 7"]
    assert "its batch host node1 was silent for" in json.loads((tmp_path / "watchdog.json").read_text())["reason"]
    assert take_reason(tmp_path).endswith("requeued it")
    assert take_reason(tmp_path) == ""


def test_a_dead_host_whose_slurmd_refuses_connections(slurm: FakeSlurm, slurmd: socket.socket, tmp_path: Path) -> None:
    slurmd.close()
    assert Watching(tmp_path).ends()
    assert slurm.calls == ["scontrol requeue 7"]


def test_a_job_that_cannot_be_requeued_is_cancelled(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.node, slurm.refuses = "DOWN", True
    assert Watching(tmp_path).ends()
    assert slurm.calls == ["scancel 7"]


def test_a_silent_railbed_on_a_host_that_answers_is_left_alone(slurm: FakeSlurm, tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    os.close(watching.input)
    assert not watching.ends(1.0)
    slurm.state = "COMPLETING"  # the job ends: so does the watchdog
    assert watching.ends()
    assert slurm.calls == []


@pytest.mark.parametrize("other", [{"restarts": 1}, {"host": "node2"}, {"state": "PENDING"}])
def test_another_start_of_the_job_is_not_its_business(
    slurm: FakeSlurm, tmp_path: Path, other: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Watching(tmp_path)
    for name, value in other.items():
        monkeypatch.setattr(slurm, name, value)
    slurm.node = "DOWN"
    assert watching.ends()
    assert slurm.calls == []


def test_heartbeats_of_either_kind_keep_it_quiet(slurm: FakeSlurm, tmp_path: Path) -> None:
    slurm.node = "DOWN"
    watching = Watching(tmp_path)
    for count in range(40):
        if count % 2:
            os.write(watching.input, b"\n")
        else:
            (tmp_path / "alive").write_text(str(count))
        assert not watching.ends(0.03)
    os.write(watching.input, b"end\n")
    assert watching.ends()
    assert slurm.calls == []


def test_what_scontrol_prints() -> None:
    assert read_place(NODE.format(port=6818, state="IDLE")) == ("127.0.0.1", 6818)
    assert read_place("") is None
    assert [is_down(NODE.format(port=1, state=state)) for state in ("IDLE", "ALLOCATED*", "DOWN+DRAIN", "MIXED")] == [
        False, True, True, False
    ]  # fmt: skip
    assert read_job(JOB.format(state="RUNNING", restarts=2, host="n")) == {
        "JobState": "RUNNING",
        "Restarts": "2",
        "BatchHost": "n",
    }
