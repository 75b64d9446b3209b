"""A run's folder: whole after any crash, readable while it is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from railbed.errors import UsageError
from railbed.model.record import Event, Finding, Verdict
from railbed.store import list_runs, open_run, read_records, read_run, write_atomically


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def finding(verdict: Verdict) -> Finding:
    return Finding(check="mtu", subject="a/eth1", verdict=verdict, expected="9000", observed="1500", why="…")


def test_records_come_back_as_they_went_in() -> None:
    with open_run("check", cluster_name="lab", cluster_text="name: lab\n") as run:
        run.append(Event(name="reading"))
        run.append(finding(Verdict.FAIL))
        assert read_run(run.folder.name).status == "running"
        run.finish("done", 1)
    (summary,) = list_runs()
    assert (summary.status, summary.exit, summary.verdicts) == ("done", 1, {"fail": 1})
    assert [record["kind"] for record in read_records(summary.id)] == ["event", "finding"]


def test_runs_of_one_second_do_not_meet() -> None:
    for _ in range(3):
        with open_run("check", cluster_name="lab", cluster_text="") as run:
            run.finish("done", 0)
    assert len({summary.id for summary in list_runs()}) == 3


def test_a_torn_last_line_is_passed_over(runs_here: Path) -> None:
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        run.append(finding(Verdict.OK))
        run.finish("done", 0)
    name = run.folder.name
    with (runs_here / name / "records.jsonl").open("ab") as file:
        file.write(b'{"kind": "find')
    assert len(list(read_records(name))) == 1


def test_a_run_that_was_killed_has_died_and_keeps_its_records(runs_here: Path) -> None:
    code = (
        "import os, signal\n"
        "from railbed.store import open_run\n"
        "from railbed.model.record import Event\n"
        "with open_run('check', cluster_name='lab', cluster_text='') as run:\n"
        "    run.append(Event(name='reading'))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "RAILBED_RUNS": str(runs_here)}, check=False)
    assert done.returncode == -signal.SIGKILL
    (summary,) = list_runs()
    assert summary.status == "died"
    assert [record["name"] for record in read_records(summary.id)] == ["reading"]


@pytest.mark.parametrize("name", ["nothing", "20200101-000000-check", "../../etc/passwd"])
def test_a_run_that_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        read_run(name)


def test_a_damaged_run_is_passed_over(runs_here: Path) -> None:
    folder = runs_here / "20200101-000000-check"
    folder.mkdir(parents=True)
    for text in ("", "not json", json.dumps({"id": "x", "surprise": 1}), "[]"):
        (folder / "run.json").write_text(text)
        assert list_runs() == []


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir() if p.name != "runs"] == ["file"]
