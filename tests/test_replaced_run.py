"""A run that waits or continues is a folder of this user that nobody else can put another in place of."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railbed.cli.slurm.attempt import this_attempt
from railbed.cli.slurm.script import JobRequest, batch_script
from railbed.errors import UsageError
from railbed.model.writers import ACL
from railbed.store import Store, new_run, open_run, run_to_continue
from railbed.store.run import refuse_replaceable, require_private_run
from tests.support.cli import railbed
from tests.support.strangers import as_stranger, open_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="being another user needs root")
NOBODY = 65534
REPLACE = """
mv "$1" "$1.away"
mkdir "$1"
cp "$2" "$1/run.json"
chmod 0777 "$1"
ln -s "$3" "$1/output.txt"
ln -s "$3" "$1/records.jsonl"
ln -s "$3" "$1/cluster.yaml"
"""
"""Puts another folder in place of a run: its path, a readable run.json, and the file that is to be overwritten."""


def given_to_nobody(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def open_to_a_group(runs: Path) -> None:
    os.chown(runs, 0, NOBODY)
    runs.chmod(0o770)


def reached_by_a_link_of_another(runs: Path) -> None:
    runs.rename(runs.with_name("target"))
    runs.symlink_to("target")
    os.lchown(runs, NOBODY, NOBODY)
    runs.parent.chmod(0o1777)


def open_to_an_access_list(runs: Path) -> None:
    """Give a user access beside the group, which is root's own."""
    entries = ((0x01, 7, -1), (0x02, 7, NOBODY), (0x04, 5, -1), (0x10, 7, -1), (0x20, 0, -1))
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(runs, ACL, content)
    except OSError as error:
        pytest.skip(f"no access lists here: {error}")


LAYOUTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "all may write": (lambda runs: runs.chmod(0o777), "others can write to {runs}, and put another folder in place of"),
    "a group may write": (open_to_a_group, "others can write to {runs}"),
    "an access list": (open_to_an_access_list, "others can write to {runs}"),
    "another owner": (given_to_nobody, "{runs} belongs to nobody, who can put another folder in place of"),
    "another owner above": (lambda runs: given_to_nobody(runs.parent), "{above} belongs to nobody"),
    "all may write above": (lambda runs: runs.parent.chmod(0o777), "others can write to {above}"),
    "a link of another": (reached_by_a_link_of_another, "{runs} belongs to nobody"),
}


@pytest.mark.parametrize(("arrange", "sentence"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_folders_in_which_others_can_replace_a_run(
    arrange: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    runs = tmp_path / "above" / "runs"
    run = runs / "20260101-000000-train"
    run.mkdir(parents=True, mode=0o700)
    require_private_run(run)
    arrange(runs)
    for path in (run, runs / "a-new-one"):
        with pytest.raises(UsageError) as refused:
            refuse_replaceable(path)
        assert sentence.format(runs=runs, above=runs.parent) in refused.value.message
        assert "RAILBED_RUNS=FOLDER" in refused.value.hint
        assert ("chmod go-w" in refused.value.hint) == ("others can write" in refused.value.message)


def test_folders_in_which_nobody_else_can(tmp_path: Path) -> None:
    with open_folder() as shared:
        run = shared / "mine" / "20260101-000000-train"
        run.mkdir(parents=True, mode=0o700)
        (shared / "link").symlink_to("mine")
        for path in (run, shared / "link" / run.name, shared / "new" / "run", tmp_path / "link" / ".." / "x"):
            refuse_replaceable(path)
        require_private_run(run)
    # A group of the same name as its owner has no other members, as root's.
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o770)
    refuse_replaceable(tmp_path / "runs" / "x")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="Too many levels of symbolic links"):
        refuse_replaceable(tmp_path / "loop" / "x")


def test_a_run_itself(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(UsageError, match="is not a folder of this user"):
        require_private_run(tmp_path / "link")
    run.chmod(0o707)
    with pytest.raises(UsageError, match="others can write to"):
        require_private_run(run)
    given_to_nobody(run)
    with pytest.raises(UsageError, match="is not a folder of this user"):
        require_private_run(run)


def test_the_folder_of_runs_is_private(runs_here: Path) -> None:
    before = os.umask(0)
    try:
        new_run("check", cluster_name="here")
    finally:
        os.umask(before)
    assert runs_here.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A waiting run in whose place a stranger has put a folder of his own, and the file that he wants to change."""
    precious = tmp_path / "precious"
    precious.write_text("dear\n")
    with open_folder() as shared:
        monkeypatch.setenv("RAILBED_RUNS", str(shared / "runs"))
        waiting = shared / "runs" / new_run("train", cluster_name="slurm", status="waiting").id
        about = shared / "run.json"
        about.write_bytes((waiting / "run.json").read_bytes())
        (shared / "runs").chmod(0o777)
        as_stranger(REPLACE, waiting, about, precious)
        monkeypatch.setenv("RAILBED_RUN", str(waiting))
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        yield waiting, precious


def test_a_replaced_run_does_not_continue(replaced: tuple[Path, Path]) -> None:
    run, precious = replaced
    before = sorted(path.name for path in run.iterdir())
    with (
        pytest.raises(UsageError, match="is not a folder of this user: the run does not continue"),
        open_run("train", cluster_name="c", cluster_text="name: c\n", store=Store(continued=run_to_continue())),
    ):
        pass
    with pytest.raises(UsageError, match="is not a folder of this user"):
        this_attempt()
    assert (precious.read_text(), sorted(path.name for path in run.iterdir())) == ("dear\n", before)


def test_the_output_of_a_job_follows_no_link(replaced: tuple[Path, Path], tmp_path: Path) -> None:
    """Neither where the folder was replaced, nor by a link in the right one."""
    run, precious = replaced
    own = run.with_name(f"{run.name}.away")
    (tmp_path / "folder").symlink_to(tmp_path)
    for folder, code in ((run, 73), (tmp_path / "folder", 73), (own, 0)):
        script = batch_script(JobRequest(nodes=1), "train", ["train"], run=folder, folder=tmp_path)
        before, _, _ = script.rpartition("exec ")
        (tmp_path / "job.sh").write_text(f"{before}echo printed\n")
        done = subprocess.run(
            ["/bin/sh", tmp_path / "job.sh"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (code, "")
        assert not (tmp_path / "output.txt").exists()
    assert (own / "output.txt").read_text() == "printed\n"
    (own / "output.txt").unlink()
    (own / "output.txt").symlink_to(precious)
    assert subprocess.run(["/bin/sh", tmp_path / "job.sh"], cwd=tmp_path, check=False).returncode == 73
    assert precious.read_text() == "dear\n"


def test_nothing_is_submitted_from_a_folder_that_others_can_write_to(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in (("sbatch", f"touch {tmp_path}/submitted; echo 7"), ("sinfo", "echo 'lab*|0/2/0/2|1-9'")):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o777)
    path = f"{programs}:{os.environ['PATH']}"
    refused = railbed(tmp_path, "submit", "check", "--no-follow", PATH=path)
    assert refused.code == 2
    assert f"railbed: others can write to {tmp_path}/runs, and put another folder in place of" in refused.err
    assert f"`chmod go-w {tmp_path}/runs` closes it to them" in refused.err
    assert (list((tmp_path / "runs").iterdir()), (tmp_path / "submitted").exists()) == ([], False)
    (tmp_path / "runs").rmdir()
    accepted = railbed(tmp_path, "submit", "check", "--no-follow", PATH=path)
    assert (accepted.code, (tmp_path / "runs").stat().st_mode & 0o777) == (0, 0o700), accepted.err
