"""Files of railbed are for its user alone, and never written through something that another user prepared."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.events import event
from tests.support.strangers import as_stranger, open_folder

from railbed.api.running import keep_cluster
from railbed.cli import main
from railbed.cli.background import detach as detached
from railbed.errors import UsageError
from railbed.model.reading import Output
from railbed.model.record import Measurement
from railbed.store import open_run
from railbed.store.tensorboard import TensorBoardLogs
from railbed.transport.record import OutputRecorder


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """A user whose new files everybody can write to by default."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder.parent)): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


def expect_private(folder: Path) -> None:
    for name, mode in modes(folder).items():
        assert mode == (0o700 if (folder.parent / name).is_dir() else 0o600), (name, oct(mode))


def test_a_run_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    with open_run("train", cluster_name="lab", cluster_text="nodes: {}") as run:
        logs = TensorBoardLogs(run.folder)
        for record in (event(name="generation"), Measurement(name="loss", value=1.0, unit="nat", labels={"step": 1})):
            run.append(record)
            logs.take(record)
        logs.close()
        with OutputRecorder(run.raw) as recorder:
            output = Output(device="a", key="k", command="c", stdout=b"", stderr=b"", exit=0, sent=0.0, received=0.0)
            recorder.store(output)
        run.finish("done", 0)
    assert (run.folder / "tensorboard").is_dir()
    expect_private(run.folder)


def test_a_recording_is_for_its_user_alone(tmp_path: Path) -> None:
    keep_cluster(tmp_path / "recording", "nodes: {}")
    with OutputRecorder(tmp_path / "recording") as recorder:
        recorder.store_error("a", "Unreachable", "no answer")
    expect_private(tmp_path / "recording")


def test_what_a_detached_run_says_is_for_its_user_alone(tmp_path: Path) -> None:
    if (pid := os.fork()) == 0:
        detached._write_to(tmp_path / "output.txt")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "output.txt").stat().st_mode & 0o777 == 0o600


def test_a_run_does_not_write_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a" / "index.jsonl").symlink_to(tmp_path / "victim")
    with OutputRecorder(tmp_path) as recorder, pytest.raises(UsageError, match="symbolic link"):
        recorder.store_error("a", "Unreachable", "no answer")
    assert (tmp_path / "victim").read_text() == "precious"


def test_the_crash_file_is_new_and_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user has put links under every name that used to be taken."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("railbed.cli.main.time.strftime", lambda _: "20260101-000000")
    with open_folder() as shared:
        monkeypatch.setattr(tempfile, "tempdir", str(shared))
        as_stranger('ln -s "$2" "$1"', shared / f"railbed-20260101-000000-{os.getpid()}.txt", victim)
        files = [Path(main._keep_traceback(ValueError("broken"))) for _ in range(2)]
        assert len({path.name for path in files}) == 2
        for path in files:
            assert path.stat().st_mode & 0o777 == 0o600
            assert "ValueError: broken" in path.read_text()
    assert victim.read_text() == "precious"
