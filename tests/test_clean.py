"""`railbed runs --clean` removes what runs left here and on their nodes, and nothing else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from railbed.launch.files.guard import hold
from railbed.store import OpenRun, Status, open_run, set_status
from railbed.store.submitted import note_job
from tests.support.cli import RAILBED, Result, environment, railbed
from tests.support.events import event
from tests.support.strangers import as_stranger, open_folder

CLUSTER = """
name: here
nodes:
  here: {{host: local, python: {python}}}
training: {{workdir: {folder}}}
"""
GONE = "name: gone\nnodes: {gone: {host: 127.0.0.1, login: {port: 1}}}\n"
OLD = time.time() - 3600


class Site:
    """A folder with runs, and a node that is this machine."""

    def __init__(self, folder: Path, workdir: Path) -> None:
        self.folder = folder
        self.base = workdir / ".railbed"
        self.base.mkdir(mode=0o700, parents=True)
        self.cluster = CLUSTER.format(python=sys.executable, folder=workdir)

    def left(self) -> list[str]:
        """What is on the node."""
        names = (path for part in self.base.iterdir() if part.is_dir() for path in part.glob("*"))
        return sorted(str(path.relative_to(self.base)) for path in names)

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "runs").iterdir())

    def put(self, path: str, size: int = 100_000) -> Path:
        """Put something on the node, an hour ago."""
        folder = self.base / path
        folder.mkdir(mode=0o700, parents=True)
        (folder / "file").write_bytes(b"1" * size)
        for entry in (folder / "file", folder, folder.parent):
            os.utime(entry, (OLD, OLD))
        return folder

    def train(self, job: str, *, cluster: str = "") -> str:
        """Make a training run that has ended and left something on its node."""
        with open_run("train", cluster_name="here", cluster_text=cluster or self.cluster) as run:
            self.begin(run, job)
            run.finish("done", 0)
        return run.folder.name

    def begin(self, run: OpenRun, job: str) -> None:
        run.append(event(name="training", subject=job, data={"run": job, "recipe": {}}))
        self.put(f"runs/{job}/here")

    def clean(self, *options: str) -> Result:
        return railbed(self.folder, "runs", "--clean", *options)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    return Site(tmp_path, tmp_path / "work")


def test_without_a_terminal_it_only_lists(site: Site) -> None:
    name = site.train("job1")
    site.put("code/0123", 5_000_000)
    done = site.clean()
    assert done.code == 1
    assert f"{name} (done)" in done.out
    assert "shared by runs" in done.out
    assert "5.00 MB" in done.out or "5.01 MB" in done.out
    assert "3 to remove, 5." in done.out
    assert done.err == "nothing was removed: `railbed runs --clean --yes` removes the listed files\n"
    assert (site.runs(), site.left()) == ([name], ["code/0123", "runs/job1"])


def test_with_yes_it_removes_here_and_there(site: Site) -> None:
    site.train("job1")
    for path in ("code/0123", "tokens/0123", "models/0123", "partial/models-0123", "bench/bench-12/here"):
        site.put(path)
    site.put("compiled")
    done = site.clean("--yes")
    assert done.code == 0, done
    assert "removed 8 of them" in done.out
    assert (site.runs(), site.left()) == ([], [])
    again = site.clean("--yes")
    assert (again.code, again.out, again.err) == (0, "", "there is nothing to remove\n")


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_on_a_terminal_it_asks_once(site: Site, answer: str, code: int, left: int) -> None:
    site.train("job1")
    control, terminal = pty.openpty()
    with subprocess.Popen(
        [RAILBED, "runs", "--clean"],
        cwd=site.folder,
        env=environment(),
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
    ) as process:
        os.write(control, f"{answer}\n".encode())
        assert process.wait(60) == code
    os.close(terminal)
    output = ""
    with suppress(OSError):  # how a terminal that nobody writes to any more ends
        while piece := os.read(control, 65536).decode():
            output += piece
    os.close(control)
    assert len(re.findall(r"Remove all of this \([\d.]+ kB\)\? \[y/N\]:", output)) == 1
    assert len(site.runs()) == left


def test_what_is_running_stays(site: Site) -> None:
    site.put("code/0123")
    site.put("tokens/0123")
    with open_run("train", cluster_name="here", cluster_text=site.cluster) as run:
        site.begin(run, "job1")
        done = site.clean("--yes")
        assert done.code == 0, done
        assert f"stays: {run.folder.name}: it is running" in done.err
        named = site.clean(run.folder.name)
        assert (named.code, f"railbed: {run.folder.name} is running\n" in named.err) == (2, True)
        assert site.left() == ["code/0123", "runs/job1", "tokens/0123"]
    # The run of somebody else's control machine: an agent works in its folder.
    held = hold(site.put("runs/job2/here"))
    site.clean("--yes", "job1")
    assert f"{site.base}/runs/job2/here: it is in use" in site.clean("--yes").err
    assert site.left() == ["code/0123", "runs/job2", "tokens/0123"]
    os.close(held)
    assert site.clean("--yes", "job2", "-c", str(cluster_file(site))).code == 0
    assert site.left() == ["code/0123", "tokens/0123"]


def test_the_newest_are_kept_with_what_they_need(site: Site) -> None:
    names = [site.train(f"job{number}") for number in range(3)]
    site.put("tokens/0123")
    assert site.clean("--keep", "1", "--yes").code == 0
    assert (site.runs(), site.left()) == (names[2:], ["runs/job2", "tokens/0123"])


def test_one_run_is_removed_by_name_and_a_resumed_one_keeps_its_files(site: Site) -> None:
    first, second = site.train("job1"), site.train("job2")
    with open_run("train", cluster_name="here", cluster_text=site.cluster) as run:
        run.append(event(name="training", subject="job1", data={"run": "job1", "recipe": {}}))
        run.finish("stopped", 130)
    assert site.clean("--yes", first).code == 0
    assert (site.runs(), site.left()) == ([second, run.folder.name], ["runs/job1", "runs/job2"])
    assert site.clean("--yes", run.folder.name).code == 0
    assert (site.runs(), site.left()) == ([second], ["runs/job2"])
    unknown = site.clean("--yes", "nonsense")
    assert (unknown.code, "there is no run 'nonsense' in" in unknown.err) == (2, True)


def test_what_no_run_of_this_folder_left_is_named_and_stays(site: Site) -> None:
    site.train("job1")
    site.put("runs/theirs/here")
    done = site.clean("--yes")
    assert done.code == 0
    assert "it belongs to no run in this folder; `railbed runs --clean theirs -c FILE` removes it" in done.err
    assert site.left() == ["runs/theirs"]
    assert site.clean("--yes", "theirs", "-c", str(cluster_file(site))).code == 0
    assert site.left() == []


def cluster_file(site: Site) -> Path:
    path = site.folder / "cluster.yaml"
    path.write_text(site.cluster)
    return path


def test_links_are_not_followed_and_what_is_not_ours_is_not_touched(site: Site, tmp_path: Path) -> None:
    name = site.train("job1")
    precious = tmp_path / "precious"
    (precious / "runs" / "job1" / "here").mkdir(parents=True)
    (precious / "letter").write_text("dear")
    (site.base / "runs" / "job1" / "here" / "link").symlink_to(precious)
    (site.base / "tokens").symlink_to(precious)
    (site.base / "notes").write_text("not railbed's")
    (site.folder / "runs" / name / "link").symlink_to(precious)
    (site.folder / "runs" / "20200101-000000-train").symlink_to(precious)
    (site.folder / "runs" / "holiday").mkdir()
    assert site.clean("--yes").code == 0
    assert (precious / "letter").read_text() == "dear"
    assert (precious / "runs" / "job1" / "here").is_dir()
    assert site.runs() == ["20200101-000000-train", "holiday"]
    assert (site.base / "notes").exists()


def test_a_folder_of_local_user_is_not_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    with open_folder() as shared:
        site = Site(tmp_path, shared / "mine")
        name = site.train("job1")
        (shared / "mine" / ".railbed").rename(shared / "mine" / "away")
        (shared / "mine").chmod(0o1777)
        as_stranger('mkdir -p "$1/runs/job1/here"', shared / "mine" / ".railbed")
        done = site.clean("--yes")
        assert done.code == 3
        assert "here cannot be reached, and files that runs left there stay: " in done.err
        assert ".railbed belongs to nobody" in done.err
        assert (shared / "mine" / ".railbed" / "runs" / "job1" / "here").exists()
    assert site.runs() == [name]


def test_a_node_out_of_reach_is_named_and_its_runs_stay(site: Site) -> None:
    gone, here = site.train("job1", cluster=GONE), site.train("job2")
    done = site.clean("--yes")
    assert done.code == 3
    assert "gone cannot be reached, and files that runs left there stay: 127.0.0.1 port 1 cannot be reached" in done.err
    assert f"`railbed runs --clean {gone}` removes it here anyway" in done.err
    assert (here not in site.runs(), gone in site.runs()) == (True, True)
    assert site.clean("--yes", gone).code == 3
    assert site.runs() == []


@pytest.fixture
def slurm(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let `squeue` run this script; `tests/test_slurm_foreign.py` has the real one."""
    programs = site.folder / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def runs(script: str) -> None:
        (programs / "squeue").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "squeue").chmod(0o755)

    return runs


def submitted(site: Site, status: Status) -> Path:
    """Make a run that was submitted as job 7."""
    folder = site.folder / "runs" / site.train("job1")
    set_status(folder, status)
    note_job(folder, 7)
    return folder


@pytest.mark.parametrize("state", ["PENDING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "COMPLETING", "RUNNING"])
def test_a_run_whose_job_slurm_lists_stays(site: Site, slurm: Callable[[str], None], state: str) -> None:
    folder = submitted(site, "waiting" if state != "RUNNING" else "stopped")
    slurm(f"echo '7|{state}||None|{folder}'")
    done = site.clean("--yes")
    assert (done.code, folder.exists()) == (0, True), done
    words = state.lower().replace("_", " ")
    assert f"stays: {folder.name}: its job 7 is {words}; `railbed runs --stop {folder.name}` ends it" in done.err
    assert site.left() == ["runs/job1"]
    named = site.clean("--yes", folder.name)
    assert (named.code, f"{folder.name} stays: its job 7 is {words}" in named.err) == (2, True), named
    assert folder.exists()
    # Known by its folder, where `submit` was killed before it could store the number.
    (folder / "job.json").unlink()
    (folder / "job.sh").touch()
    assert f"stays: {folder.name}: its job 7 is" in site.clean("--yes").err
    slurm(f"echo '7|COMPLETED||None|{folder}'")
    assert (site.clean("--yes").code, folder.exists()) == (0, False)


@pytest.mark.parametrize(("status", "stays"), [("waiting", True), ("died", True), ("stopped", True), ("done", False)])
def test_a_run_whose_job_may_be_in_the_queue_stays_if_slurm_cannot_be_asked(
    site: Site, slurm: Callable[[str], None], status: Status, stays: bool
) -> None:
    folder = submitted(site, status)
    slurm("echo 'squeue: error: Unable to contact slurm controller (connect failure)' >&2; exit 1")
    done = site.clean("--yes")
    assert (done.code, folder.exists()) == (3 if stays else 0, stays), done
    assert (f"stays: {folder.name}: Slurm cannot be asked whether its job has ended: " in done.err) is stays
    if stays:
        named = site.clean("--yes", folder.name)
        assert (
            named.code,
            f"or remove runs/{folder.name} yourself" in named.err.replace(str(site.folder) + "/", ""),
        ) == (
            2,
            True,
        )


def test_a_job_that_came_while_the_question_waited(site: Site, slurm: Callable[[str], None]) -> None:
    folder = submitted(site, "stopped")
    slurm(f"[ -e {site.folder}/asked ] && echo '7|PENDING||None|{folder}'; touch {site.folder}/asked")
    done = site.clean("--yes")
    assert (done.code, f"{folder.name} stays, and nothing was removed: its job 7 is pending" in done.err) == (2, True)
    assert (folder.exists(), site.left()) == (True, ["runs/job1"])


def test_slurm_is_not_asked_about_runs_without_jobs(site: Site, slurm: Callable[[str], None]) -> None:
    slurm(f"touch {site.folder}/asked")
    site.train("job1")
    assert site.clean("--yes").code == 0
    assert not (site.folder / "asked").exists()


def test_the_list_as_records(site: Site) -> None:
    name = site.train("job1")
    done = site.clean("--json")
    assert done.code == 1
    (here, there) = done.records
    assert (here["name"], here["data"]["run"]) == ("leftover", name)
    assert (there["subject"], there["data"]["node"]) == (f"here:{site.base}/runs/job1/here", "here")
    removed = site.clean("--json", "--yes").records
    assert [name["name"] for name in removed] == ["leftover", "leftover", "removed", "removed"]


def test_options_of_cleaning_need_it(site: Site) -> None:
    done = railbed(site.folder, "runs", "--yes")
    assert (done.code, "add --clean" in done.err) == (2, True)
