"""A run has one writer: a lock is ignored only if it is that of an earlier start of the same job on a lost machine."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_core import to_json

from railbed.errors import UsageError
from railbed.store import Store, open_run, run_lock
from railbed.store.run import read_about
from railbed.store.submitted import job_of, note_job
from railbed.store.writing import CONTINUED, new_run

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
sys.stdout.write("locked\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that waits for job 7, inside the second start of that job."""
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "runs" / new_run("check", cluster_name="slurm", status="waiting").id
    note_job(folder, 7)
    (folder / "records.jsonl").touch(0o600)
    monkeypatch.setenv(CONTINUED, str(folder))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(folder))
    monkeypatch.setattr(run_lock, "LOCK_SECONDS", 0.3)
    monkeypatch.setattr(run_lock, "ENDING_WINDOWS", 2)
    return folder


@pytest.fixture
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked the run."""
    words = [sys.executable, "-c", HOLD, str(run / "records.jsonl")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def written_on(folder: Path, boot: str, process: subprocess.Popen[str]) -> None:
    """Store that a process writes the run, on the machine with a boot."""
    summary = read_about(folder)
    about = {"machine": "node9", "boot": boot, "pid": process.pid, "started": 1}
    content = json.loads(to_json(replace(summary, status="running")))
    (folder / "run.json").write_text(json.dumps({**content, "process": about}))


def start(folder: Path) -> None:
    with open_run("check", cluster_name="slurm", cluster_text="name: x\n", store=Store(continued=folder)) as run:
        assert run.folder == folder


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_live_lock_is_never_ignored(run: Path, holder: subprocess.Popen[str]) -> None:
    written_on(run, boot(), holder)
    (run / "cluster.yaml").write_text("name: of the other\n")
    before = (run / "run.json").read_bytes()
    with pytest.raises(UsageError, match=f"another process on node9, pid {holder.pid} of job 7 is writing {run.name}"):
        start(run)
    assert (run / "run.json").read_bytes() == before
    assert (run / "cluster.yaml").read_text() == "name: of the other\n"


def test_the_lock_of_an_earlier_start_on_a_lost_machine_is_ignored(run: Path, holder: subprocess.Popen[str]) -> None:
    """A file server releases it late or never."""
    written_on(run, "another boot", holder)
    start(run)
    assert read_about(run).process is not None


@pytest.mark.parametrize("name", ["alive", "records.jsonl"])
def test_a_machine_that_still_writes_is_not_lost(run: Path, holder: subprocess.Popen[str], name: str) -> None:
    written_on(run, "another boot", holder)
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.05):
            with (run / name).open("ab") as file:
                file.write(b"x")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        with pytest.raises(UsageError, match="is writing"):
            start(run)
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(("job", "count"), [("8", "1"), ("7", "0"), ("7", ""), ("", "")])
def test_the_lock_of_another_start_is_not_ignored(
    run: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, job: str, count: str
) -> None:
    """Neither another job, nor the same start twice, nor a shell without a job."""
    written_on(run, "another boot", holder)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_RESTART_COUNT", count)
    with pytest.raises(UsageError, match="is writing"):
        start(run)


@pytest.mark.parametrize("variable", ["SLURM_ARRAY_JOB_ID", "SLURM_HET_JOB_ID"])
def test_a_part_of_several_jobs_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "6")
    with pytest.raises(UsageError, match=f" 6, whose parts would all write {run.name}"):
        start(run)


def test_a_job_stores_its_own_number_when_it_starts(run: Path) -> None:
    (run / "job.json").unlink()
    start(run)
    job = job_of(run)
    assert job is not None
    assert (job.number, job.start) == (7, 1)
    assert (run / "job.json").stat().st_mode & 0o777 == 0o600


def test_a_job_that_works_elsewhere_does_not_become_that_of_the_run(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a shell of `salloc` in which somebody continues the run by hand."""
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(tmp_path))
    start(run)
    job = job_of(run)
    assert job is not None
    assert job.number == 7


def test_a_file_system_without_locks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(run_lock.NO_LOCKS[0], os.strerror(run_lock.NO_LOCKS[0]))

    monkeypatch.setattr(fcntl, "flock", refuse)
    start(run)
