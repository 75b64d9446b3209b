"""What a run says about processes and jobs is believed only if its folder is the user's own, and they agree."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.support.cli import railbed
from tests.support.runs import plain_run

from railbed.cli.background import attach, stop
from railbed.cli.background import stop as module
from railbed.cli.background.stop import stop_in
from railbed.cli.slurm import jobs
from railbed.cli.slurm.jobs import NotItsJob
from railbed.configure.journal import holder_has_ended
from railbed.errors import UsageError
from railbed.parsing.nexus.switch_lock import Holder
from railbed.store import find_run, list_runs, new_run, read_run_in, set_status, summary_of
from railbed.store.run import Process
from railbed.store.submitted import note_job

NOBODY = 65534
WRITER = """
import time
from railbed.store import open_run
with open_run("train", cluster_name="c", cluster_text="name: c"):
    print("writing", flush=True)
    time.sleep(600)
"""
SQUEUE = "#!/bin/sh\necho '{line}'\n"
SCANCEL = "#!/bin/sh\necho \"$*\" >>'{log}'\n"


@contextmanager
def training() -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that writes a run, and the run's folder."""
    with subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"writing\n"
            yield process, Path(os.environ["RAILBED_RUNS"]) / list_runs()[0].id
        finally:
            process.kill()


def forge(folder: Path, process: Process | None) -> None:
    """Write a process into a run that has ended, as if it were still being written."""
    about = json.loads((folder / "run.json").read_text())
    about |= {"status": "running", "ended": None, "exit": None, "process": asdict(process) if process else None}
    (folder / "run.json").write_text(json.dumps(about))


def test_the_process_of_a_run_is_ended(runs_here: Path) -> None:
    with training() as (process, folder):
        assert folder.parent == runs_here
        assert stop_in(folder, summary_of(folder), as_json=True) == 0
        assert process.wait(60) != 0
    summary = read_run_in(folder)
    assert summary
    assert summary.status == "died"


@pytest.mark.usefixtures("runs_here")
def test_a_forged_run_ends_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `run.json` names the process of another run, and somebody holds the lock of its records."""
    monkeypatch.setattr(module, "GONE_SECONDS", 0.3)
    with training() as (process, real):
        forged = plain_run(status="done", verb="train")
        forge(forged, summary_of(real).process)
        with (forged / "records.jsonl").open("ab") as records:
            fcntl.flock(records, fcntl.LOCK_EX)
            with pytest.raises(UsageError, match="is written by another process than") as refused:
                stop_in(forged, summary_of(forged), as_json=False)
        assert f"fuser -v {forged}/records.jsonl" in refused.value.hint
        assert "kill" not in refused.value.hint
        link = tmp_path / "20260101-000000-train"
        link.symlink_to(real)
        with pytest.raises(UsageError, match="is a link, and what it leads to may be another run"):
            stop_in(link, summary_of(link), as_json=False)
        assert process.poll() is None


def give_away(folder: Path) -> None:
    """Give a run to another user."""
    if os.geteuid():
        pytest.skip("giving a file to another user needs root")
    for path in (*folder.iterdir(), folder):
        os.chown(path, NOBODY, NOBODY)


def test_root_is_told_whose_run_it_is(runs_here: Path) -> None:
    """`squeue --me` and `list_runs` would make it look as if it had ended."""
    folder = plain_run(status="waiting", verb="train")
    note_job(folder, 7)
    give_away(folder)
    for option in ("--stop", "--attach"):
        result = railbed(runs_here.parent, "runs", option, folder.name)
        assert result.code == 2
        assert result.err == (
            f"railbed: {folder.name} is a run of nobody, and only nobody can do this: nothing was done\n"
            f"  `sudo -u nobody railbed runs {option} {folder.name}`\n"
        )
    assert "has ended" not in railbed(runs_here.parent, "runs").out


@pytest.mark.usefixtures("runs_here")
def test_the_newest_run_is_that_of_this_user() -> None:
    """One of the same name on its nodes, in a shared folder, is not what `--stop` gets either."""
    own, theirs = plain_run(verb="train"), plain_run(verb="train")
    assert find_run("newest") == theirs
    give_away(theirs)
    assert find_run("newest") == own
    give_away(own)
    assert find_run("newest") == theirs


@pytest.mark.usefixtures("runs_here")
def test_the_lock_of_a_switch_is_not_broken_for_the_run_of_another() -> None:
    """He could write into it that the process that holds the lock has ended."""
    folder = plain_run(verb="configure")
    holder = Holder.this_process("run", folder.name)
    assert holder_has_ended(holder)
    give_away(folder)
    assert not holder_has_ended(holder)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Let Slurm list one line; return the file in which it notes what was cancelled."""
    programs, log = tmp_path / "bin", tmp_path / "cancelled"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def lists(line: str) -> Path:
        for name, script in (("squeue", SQUEUE.format(line=line)), ("scancel", SCANCEL.format(log=log))):
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        return log

    return lists


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
@pytest.mark.usefixtures("runs_here")
def test_a_forged_number_reaches_no_other_job(tmp_path: Path, slurm: Callable[[str], Path], state: str) -> None:
    folder = plain_run(status="waiting", verb="train")
    note_job(folder, 7)
    log = slurm(f"7|{state}||None|{tmp_path}")
    for act in (stop_in, attach.attach_in):
        with pytest.raises(NotItsJob) as refused:
            act(folder, summary_of(folder), as_json=False)
        assert refused.value.message == (
            f"job 7 is not that of {folder.name}, whose job.json names it: it works in {tmp_path}"
        )
    assert not log.exists()
    assert summary_of(folder).status == "waiting"
    assert f"job 7 {state.lower()}" not in railbed(tmp_path, "runs").out


@pytest.mark.usefixtures("runs_here")
def test_the_job_of_a_run_is_cancelled(
    tmp_path: Path, slurm: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "JOB_END_SECONDS", 0.1)
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.1)
    folder = plain_run(status="waiting", verb="train")
    note_job(folder, 7)
    log = slurm(f"7|PENDING||None|{folder}")
    assert "job 7 pending" in railbed(tmp_path, "runs").out
    set_status(folder, "died")  # a host that lost power, before Slurm put the job back into the queue
    assert json.loads(railbed(tmp_path, "runs", "--json").out)["next"] == ""
    with pytest.raises(stop.JobRemains):
        stop_in(folder, summary_of(folder), as_json=False)
    assert log.read_text() == "7\n"


@pytest.mark.usefixtures("runs_here")
def test_a_folder_that_took_the_place_of_a_run_has_not_its_job(slurm: Callable[[str], Path]) -> None:
    """A run whose folder was renamed is not where its job works."""
    folder = plain_run(status="waiting", verb="train")
    note_job(folder, 7)
    log = slurm(f"7|PENDING||None|{folder}")
    moved = folder.rename(folder.with_name("20260101-000000-train"))
    (folder.parent / new_run("train", cluster_name="slurm").id).rename(folder)
    with pytest.raises(NotItsJob):
        stop_in(moved, summary_of(moved), as_json=False)
    assert not log.exists()
