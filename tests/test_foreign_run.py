"""The folder of a run that somebody else made is data: it starts no program and reaches no host."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from railbed.errors import UsageError
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.report import read
from railbed.store import list_runs, open_run
from railbed.store.find import ForeignRun, cluster_to_act_on, cluster_to_read
from railbed.store.proof import KEY, PROOF, is_proven, own_cluster_file, prove
from railbed.store.records import RecordFollower
from railbed.store.submitted import job_of, note_job
from railbed.store.undo import FILE, read_undo, save_undo
from railbed.train import recipes
from tests.support.cli import Result, railbed
from tests.support.events import event

NO_PROOF = "has no proof that you made it here"
CHECKPOINT = event(name="checkpoint", subject="job1", data={"step": 2})


class Planted:
    """A folder with a training run whose cluster file names a program and a host of the attacker."""

    def __init__(self, folder: Path, listening: socket.socket) -> None:
        self.folder = folder
        self.executed = folder / "executed"
        self.listening = listening
        program = folder / "python"
        program.write_text(f'#!/bin/sh\ntouch {self.executed}\nexec {sys.executable} "$@"\n')
        program.chmod(0o755)
        port = listening.getsockname()[1]
        self.cluster = f"""name: here
training: {{workdir: {folder / "work"}}}
nodes:
  here: {{host: local, python: {program}}}
  there: {{host: 127.0.0.1, login: {{port: {port}, user: root, password: {{env: OTHER_SECRET}}}}}}
"""
        self.run = self.made()

    def made(self) -> Path:
        with open_run("train", cluster_name="here", cluster_text=self.cluster) as run:
            recipe = recipes.load("tiny", []).to_plain()
            run.append(event(name="training", subject="job1", data={"run": "job1", "recipe": recipe}))
            run.append(CHECKPOINT)
            run.finish("stopped", 130)
        return run.folder

    def become_foreign(self) -> None:
        """Replace the proof by that of another key, as on another machine."""
        proofs = json.loads((self.run / PROOF).read_text())
        proofs["macs"] = dict.fromkeys(proofs["macs"], "0" * 64)
        (self.run / PROOF).write_text(json.dumps(proofs))

    def railbed(self, *words: str) -> Result:
        return railbed(self.folder, *words, timeout=120, OTHER_SECRET="1234")  # noqa: S106

    def is_reached(self) -> bool:
        """Whether anything was executed or anybody connected."""
        self.listening.setblocking(False)
        try:
            self.listening.accept()[0].close()
        except BlockingIOError:
            return self.executed.exists()
        return True


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Planted(tmp_path, listening)


@pytest.mark.parametrize(
    "words", [("train", "--resume", "RUN"), ("export", "RUN", "model"), ("generate", "RUN")], ids=" ".join
)
def test_no_verb_acts_on_the_cluster_of_a_foreign_run(planted: Planted, words: tuple[str, ...]) -> None:
    planted.become_foreign()
    for name in (planted.run.name, str(planted.run)):
        result = planted.railbed(*(name if word == "RUN" else word for word in words))
        assert (result.code, NO_PROOF in result.err) == (2, True), result.err
        assert "-c FILE" in result.err
    assert not planted.is_reached()


def test_cleaning_does_not_reach_the_nodes_of_a_foreign_run(planted: Planted) -> None:
    planted.become_foreign()
    listing = planted.railbed("runs", "--clean")
    assert f"the nodes of {planted.run.name} were not reached" in listing.err
    assert planted.run.exists()
    removing = planted.railbed("runs", "--clean", "--yes")
    assert (removing.code, planted.run.exists()) == (0, False), removing.err
    assert not planted.is_reached()


def test_the_nodes_of_an_own_run_are_reached(planted: Planted) -> None:
    copy = planted.run.rename(planted.folder / "copy")
    shutil.copytree(copy, planted.run)
    planted.railbed("runs", "--clean")
    assert planted.executed.exists()
    assert cluster_to_act_on(copy) == cluster_to_read(copy)


def test_a_run_of_another_verb_needs_no_training_to_be_own(planted: Planted) -> None:
    with open_run("bench", cluster_name="here", cluster_text=planted.cluster) as run:
        run.finish("done", 0)
    assert cluster_to_act_on(run.folder).name == "here"


@pytest.mark.parametrize("verb", [("report",), ("diagnose",), ("runs",), ("train", "--attach")], ids=" ".join)
def test_verbs_that_read_treat_a_foreign_run_as_data(planted: Planted, verb: tuple[str, ...]) -> None:
    planted.become_foreign()
    result = planted.railbed(*verb, *(() if verb == ("runs",) else (planted.run.name,)))
    assert NO_PROOF not in result.err
    assert not planted.is_reached()


@pytest.mark.parametrize("verb", ["check", "discover", "bench", "configure", "train", "watch"])
def test_in_the_folder_of_a_foreign_run_its_cluster_file_is_not_the_default(planted: Planted, verb: str) -> None:
    planted.become_foreign()
    result = railbed(planted.run, verb, timeout=120)
    assert (result.code, NO_PROOF in result.err) == (2, True), result.err
    assert not planted.is_reached()


def test_what_is_changed_or_lacks_a_proof_is_foreign(planted: Planted) -> None:
    assert own_cluster_file(planted.run)
    changes = {
        "cluster.yaml": planted.cluster.replace("name: here", "name: else"),
        PROOF: "{}",
        "run.json": (planted.run / "run.json").read_text().replace(planted.run.name, "20200101-000000-train"),
        "records.jsonl": (planted.run / "records.jsonl").read_text().replace("job1", "job2"),
    }
    for name, text in changes.items():
        before = (planted.run / name).read_text()
        (planted.run / name).write_text(text)
        with pytest.raises(ForeignRun):
            cluster_to_act_on(planted.run)
        (planted.run / name).write_text(before)
    first = json.dumps(json.loads((planted.run / "records.jsonl").read_text().splitlines()[0].replace("job1", "job2")))
    before = (planted.run / "records.jsonl").read_text()
    (planted.run / "records.jsonl").write_text(f"{first}\n{before}")
    assert own_cluster_file(planted.run) is None
    (planted.run / "records.jsonl").write_text(before)
    assert own_cluster_file(planted.run)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to another file": lambda path: path.symlink_to(path.parent.parent.parent / "secret"),
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["run.json", "records.jsonl", "cluster.yaml", "job.json", FILE, PROOF])
def test_what_is_not_a_file_is_not_read(planted: Planted, name: str, kind: str) -> None:
    """A pipe would block every list of runs, a device fill the memory, a link bring other files into a report."""
    (planted.folder / "secret").write_text((planted.run / name).read_text() if (planted.run / name).exists() else "{}")
    (planted.run / name).unlink(missing_ok=True)
    SPECIAL[kind](planted.run / name)
    assert [run.id for run in list_runs()] == ([] if name in ("run.json", "records.jsonl") else [planted.run.name])
    assert (own_cluster_file(planted.run) is None) is (name not in ("job.json", "records.jsonl", FILE))
    assert job_of(planted.run) is None
    with pytest.raises(UsageError) if name == "cluster.yaml" else nullcontext():
        cluster_to_read(planted.run)
    with pytest.raises(UsageError) if name == FILE else nullcontext():
        read_undo(planted.run)
    with pytest.raises(UsageError) if name in ("run.json", "records.jsonl") else nullcontext():
        assert read(planted.run).cluster_text == ("" if name == "cluster.yaml" else planted.cluster)
    if name == "records.jsonl":
        with pytest.raises(UsageError, match="cannot be read"):
            RecordFollower(planted.run / name).refresh()


def test_a_pipe_in_one_run_does_not_block_the_verbs(planted: Planted) -> None:
    (planted.run / "run.json").unlink()
    os.mkfifo(planted.run / "run.json")
    for words in (("runs",), ("report", planted.run.name), ("configure", "--undo", "newest", "--yes", "-c", "local")):
        result = planted.railbed(*words)
        assert result.code in (0, 2), result.err


@pytest.mark.parametrize("name", ["run.json", "records.jsonl", "cluster.yaml", "undo.jsonl"])
def test_no_verb_waits_for_a_planted_pipe(planted: Planted, name: str) -> None:
    other = planted.made()
    (planted.run / name).unlink(missing_ok=True)
    os.mkfifo(planted.folder / "pipe")
    (planted.run / name).symlink_to(planted.folder / "pipe")
    listed = railbed(planted.folder, "runs", timeout=60)
    assert (listed.code, other.name in listed.out) == (0, True), listed.err
    for verb in (("report",), ("diagnose",), ("train", "--attach"), ("runs", "--stop")):
        result = railbed(planted.folder, *verb, planted.run.name, timeout=60)
        assert result.code in (0, 2, 130), result


def test_a_job_does_not_continue_a_foreign_training(planted: Planted) -> None:
    """Nor one in a folder that others can write to."""
    note_job(planted.run, 7)
    programs = planted.folder / "bin"
    programs.mkdir()
    for name in ("squeue", "sinfo", "sbatch"):
        (programs / name).write_text(f"#!/bin/sh\n[ {name} != sbatch ] || touch {planted.executed}\n")
        (programs / name).chmod(0o755)
    words, path = ("submit", "train", "--resume", planted.run.name), f"{programs}:{os.environ['PATH']}"
    planted.run.chmod(0o707)
    result = railbed(planted.folder, *words, PATH=path)
    assert (result.code, f"others can write to {planted.run}: the run does not continue" in result.err) == (2, True)
    planted.run.chmod(0o700)
    planted.become_foreign()
    result = railbed(planted.folder, *words, PATH=path)
    assert (result.code, "has no proof that you started this training here" in result.err) == (2, True), result.err
    assert not planted.is_reached()


def test_the_key_is_private(planted: Planted, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "railbed"
    assert (folder.stat().st_mode & 0o777, (folder / KEY).stat().st_mode & 0o777) == (0o700, 0o600)
    assert [path.name for path in folder.iterdir()] == [KEY]
    (folder / KEY).chmod(0o644)
    assert own_cluster_file(planted.run) is None
    with pytest.raises(UsageError, match="open to other accounts"):
        prove(planted.run, planted.run.name, {"cluster": b""})
    (folder / KEY).chmod(0o600)
    (folder / KEY).rename(tmp_path / "moved")
    (folder / KEY).symlink_to(tmp_path / "moved")
    assert not is_proven(planted.run, "cluster", planted.cluster.encode())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
@pytest.mark.usefixtures("runs_here")
def test_root_makes_no_key_in_the_home_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 65534, 65534)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    with open_run("train", cluster_name="here", cluster_text="name: here\nnodes: {here: {host: local}}\n") as run:
        assert "belongs to another account" in str(run.unproven)
        run.finish("done", 0)
    assert list((tmp_path / "home").iterdir()) == []


def test_an_undo_that_was_changed_needs_an_answer(planted: Planted) -> None:
    save_undo(planted.run, Fix(device="here", apply=as_steps("true"), undo=(), persistence=Persistence.KEPT))
    assert read_undo(planted.run, own=True) == read_undo(planted.run)
    (planted.run / FILE).write_text((planted.run / FILE).read_text().replace("true", "id"))
    assert read_undo(planted.run)
    with pytest.raises(UsageError, match=r"has no proof that its undo\.jsonl was saved by you"):
        read_undo(planted.run, own=True)
