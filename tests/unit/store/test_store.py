"""A run's folder: consistent after any crash, readable while it is written."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.events import event

from railbed.cli.verbs.runs.command import runs_command
from railbed.errors import UsageError
from railbed.model import events
from railbed.model.record import Finding, Verdict
from railbed.report.reading import run as report_data
from railbed.store import (
    OpenRun,
    find_run,
    list_runs,
    open_run,
    read_records,
    read_run,
    resolve_links,
    write_atomically,
)
from railbed.store.writing import RESERVE


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def finding(verdict: Verdict) -> Finding:
    return Finding(check="mtu", subject="a/eth1", verdict=verdict, expected="9000", observed="1500", why="…")


def test_records_come_back_as_they_went_in() -> None:
    with open_run("check", cluster_name="lab", cluster_text="name: lab\n") as run:
        run.append(event(name="reading"))
        run.append(finding(Verdict.FAIL))
        assert read_run(run.folder.name).status == "running"
        run.finish("done", 1)
    (summary,) = list_runs()
    assert (summary.status, summary.exit, summary.verdicts) == ("done", 1, {"fail": 1})
    assert [type(record) for record in read_records(run.folder)] == [events.ReadingStarted, Finding]


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
    assert len(list(read_records(run.folder))) == 1


DAMAGED = {"deep": b"[" * 3000, "torn": b"{", "list": b"[1]", "null": b"null", "text": b'"name"'}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_passed_over(runs_here: Path, line: bytes) -> None:
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        run.append(finding(Verdict.OK))
        run.finish("done", 0)
    with (runs_here / run.folder.name / "records.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert len(list(read_records(run.folder))) == 1
    assert report_data.read(run.folder).unreadable == 1


def test_a_run_that_was_killed_has_died_and_keeps_its_records(runs_here: Path) -> None:
    code = (
        "import os, signal\n"
        "from railbed.store import open_run\n"
        "from railbed.model.events import ReadingStarted\n"
        "with open_run('check', cluster_name='lab', cluster_text='') as run:\n"
        "    run.append(ReadingStarted())\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "RAILBED_RUNS": str(runs_here)}, check=False)
    assert done.returncode == -signal.SIGKILL
    (summary,) = list_runs()
    assert summary.status == "died"
    assert [type(record) for record in read_records(runs_here / summary.id)] == [events.ReadingStarted]


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


def test_records_are_kept_without_secrets() -> None:
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        run.append(events.CountersRead(message='said password: "hunter2 x"', rdma={"token": "hunter2", "n": 5}))
        run.finish("done", 0)
    (record,) = read_records(run.folder)
    assert isinstance(record, events.CountersRead)
    assert record.rdma == {"token": "<removed>", "n": 5}
    assert b"hunter2" not in (run.folder / "records.jsonl").read_bytes()


def test_a_full_disk_is_one_sentence(runs_here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = f"^cannot store the run in {runs_here}: the disk is full$"

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_run("check", cluster_name="lab", cluster_text="") as run, Path("/dev/full").open("ab", 0) as disk:
        with pytest.raises(UsageError, match=sentence) as caught:
            OpenRun(run.folder, run._summary, disk).append(finding(Verdict.OK))
        assert caught.value.hint
        monkeypatch.setattr("railbed.store.writing.write_atomically", full)
        (run.folder / RESERVE).unlink()
        with pytest.raises(UsageError, match=sentence):
            run.finish("done", 0)
    with pytest.raises(UsageError, match=sentence), open_run("check", cluster_name="lab", cluster_text=""):
        pass


def test_an_error_of_the_work_is_not_taken_for_one_of_the_run() -> None:
    with pytest.raises(ConnectionResetError), open_run("check", cluster_name="lab", cluster_text=""):
        raise ConnectionResetError


def test_a_write_that_failed_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_cluster_file_is_utf_8_in_any_locale(runs_here: Path) -> None:
    code = (
        "from railbed.store import open_run\n"
        "with open_run('check', cluster_name='lab', cluster_text='name: \\xe9') as run:\n"
        "    run.finish('done', 0)\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code, b"caf\xe9"], env=environment, check=True)
    (summary,) = list_runs()
    assert (runs_here / summary.id / "cluster.yaml").read_bytes() == "name: é".encode()


def test_arguments_that_are_no_unicode() -> None:
    with open_run("check", cluster_name="lab", cluster_text="", arguments=["check", "caf\udce9"]):
        pass
    (summary,) = list_runs()
    assert summary.arguments == ["check", "caf?"]


def test_an_empty_setting_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", "")
    monkeypatch.chdir(tmp_path)
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        assert run.folder.parent == Path("runs")


def test_a_runs_folder_that_is_a_link_to_nothing(runs_here: Path) -> None:
    runs_here.symlink_to("nowhere")
    with (
        pytest.raises(UsageError, match=r"runs \(a link to nowhere\): it is not a folder"),
        open_run("check", cluster_name="lab", cluster_text=""),
    ):
        pass
    with pytest.raises(UsageError, match=r"runs \(a link to nowhere\) cannot be read"):
        list_runs()


@pytest.mark.parametrize(
    "odd",
    [
        {"verdicts": None},
        {"verdicts": {"ok": "x"}},
        {"ended": "z"},
        {"started": None},
        {"id": 5},
        {"cluster": ["a"]},
        {"arguments": "abc"},
        {"status": "odd"},
        {"status": {"a": 1}},
        {"status": []},
        {"exit": "0"},
        {"verb": "\ud800"},
    ],
    ids=str,
)
def test_a_run_of_odd_types_is_passed_over(odd: dict[str, object]) -> None:
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        run.finish("done", 0)
    about = run.folder / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), **odd}))
    assert list_runs() == []
    assert runs_command() == 0


def test_a_run_is_shown_as_it_is_named_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with open_run("check", cluster_name="[/x]\x1b[31m", cluster_text="") as run:
        run.finish("done", 0)
    about = run.folder / "run.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "id": "[/x]"}))
    assert runs_command() == 0
    out = capsys.readouterr().out
    assert run.folder.name in out
    assert "[/x]" in out
    assert "\x1b[31m" not in out


def test_a_path_is_followed_to_what_it_leads_to_and_never_round_and_round(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new.html")
    (tmp_path / "loop").symlink_to("back")
    (tmp_path / "back").symlink_to("loop")
    assert resolve_links(tmp_path / "link") == tmp_path.resolve() / "new.html"
    assert resolve_links(tmp_path / "none") == tmp_path.resolve() / "none"
    with pytest.raises(OSError, match="leads to itself"):
        resolve_links(tmp_path / "loop")


def test_the_newest_run_is_not_one_that_only_fetched_something() -> None:
    names = []
    for verb in ("check", "export"):
        with open_run(verb, cluster_name="lab", cluster_text="") as run:
            run.finish("done", 0)
        names.append(run.folder.name)
    assert find_run(None).name == names[0]
    assert find_run(names[1]).name == names[1]
