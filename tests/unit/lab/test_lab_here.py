"""Which lab the verbs of `railbed lab` work on in a folder with the cluster file of a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.cli.verbs.lab import lab_here, named_or_here
from railbed.errors import UsageError
from railbed.lab import folder
from railbed.lab.model import Spec, StoredLab
from railbed.lab.up import describe


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAILBED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def saved(name: str, number: int) -> StoredLab:
    lab = StoredLab(
        spec=Spec(name=name, kind="netns", nodes=1), number=number, id=f"{number}", folder=folder.labs_folder() / name
    )
    lab.folder.mkdir(parents=True)
    folder.save(lab)
    return lab


def write_cluster_file(lab: StoredLab, here: Path) -> None:
    (here / "cluster.yaml").write_text(clusterfile.dumps(describe(lab)))


def test_the_lab_of_the_file_wins_and_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, _ = saved("mine", 1), saved("lab", 2)
    write_cluster_file(mine, here)
    assert named_or_here(None) == "mine"
    assert capsys.readouterr().err == "lab 'mine', of cluster.yaml in this folder\n"
    assert named_or_here("lab") == "lab"
    assert capsys.readouterr().err == ""


def test_the_only_lab_needs_no_words(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cluster_file(saved("mine", 1), here)
    assert named_or_here(None) == "mine"
    assert capsys.readouterr().err == ""


def test_another_lab_is_not_taken_for_one_that_is_gone(here: Path) -> None:
    gone, other = saved("mine", 1), saved("lab", 2)
    write_cluster_file(gone, here)
    folder.remove(gone)
    with pytest.raises(UsageError, match=r"cluster\.yaml in this folder is of lab 'mine', which is not up") as error:
        named_or_here(None)
    assert error.value.hint == "existing labs: lab; --name chooses one"
    folder.remove(other)
    assert named_or_here(None) is None


def test_files_of_no_lab_of_this_cache(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = saved("mine", 1)
    assert lab_here() is None
    (here / "cluster.yaml").write_text("name: [")
    assert lab_here() is None
    (here / "cluster.yaml").write_text("name: x\nnodes: {a: {host: 10.0.0.1}}\n")
    assert lab_here() is None
    (here / "cluster.yaml").unlink()
    write_cluster_file(lab, here)
    assert lab_here() == "mine"
    monkeypatch.setenv("RAILBED_CACHE", str(here / "other"))
    assert lab_here() is None
