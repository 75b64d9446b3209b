"""A folder that appears only when complete: what a killed process left is used again, what is in use is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.strangers import as_stranger, open_folder

from railbed.errors import UsageError
from railbed.store.atomic_folder import AtomicFolder

FILLING = """
import sys, time
from pathlib import Path
from railbed.store.atomic_folder import AtomicFolder
with AtomicFolder(Path(sys.argv[1])) as folder, folder.new_file("model.bin") as file:
    file.write(b"half")
    file.flush()
    print("filling", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun to fill the folder."""
    command = [sys.executable, "-c", FILLING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"filling\n"
        yield process
        process.kill()


def fill(path: Path) -> list[str]:
    """Fill the folder; return the names of its files."""
    with AtomicFolder(path) as folder:
        with folder.new_file("model.bin") as file:
            file.write(b"whole")
        folder.finish()
    return sorted(entry.name for entry in path.iterdir())


def test_what_a_killed_process_left_is_used_again(tmp_path: Path) -> None:
    with another(tmp_path / "weights") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert [path.name for path in tmp_path.iterdir()] == ["weights.partial"]
        (tmp_path / "weights.partial" / "below").mkdir()
        assert fill(tmp_path / "weights") == ["model.bin"]
    assert (tmp_path / "weights" / "model.bin").read_bytes() == b"whole"
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


def test_what_is_being_filled_is_refused_and_stays(tmp_path: Path) -> None:
    with another(tmp_path / "weights") as process:
        with pytest.raises(UsageError, match=r"weights.partial is being filled by another export"):
            fill(tmp_path / "weights")
        assert (tmp_path / "weights.partial" / "model.bin").read_bytes() == b"half"
        process.communicate(b"")
        assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_here_made_is_not_removed(tmp_path: Path) -> None:
    own = tmp_path / "weights.partial"
    own.mkdir()
    (own / "diary.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists already") as caught:
        fill(tmp_path / "weights")
    assert f"`rm -r {own}`" in caught.value.hint
    assert (own / "diary.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_another_kind_of_file_is_not_removed(tmp_path: Path, kind: str) -> None:
    own, elsewhere = tmp_path / "weights.partial", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "file":
        own.write_text("mine")
    else:
        own.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="exists already"):
        fill(tmp_path / "weights")
    assert own.is_symlink() == (kind == "link")
    assert os.path.lexists(own)


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), AtomicFolder(tmp_path / "weights"):
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []
    assert fill(tmp_path / "weights") == ["model.bin"]


def test_a_folder_of_local_user_is_not_used() -> None:
    """Where everybody can write, anybody can create the folder in which the files are collected."""
    with open_folder() as shared:
        as_stranger('mkdir "$1"; chmod 777 "$1"; touch "$1/.railbed-lock"', shared / "model.partial")
        with pytest.raises(UsageError, match="exists already"), AtomicFolder(shared / "model"):
            pass


def test_nothing_is_removed_through_a_link_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "letter").write_text("dear")
    with AtomicFolder(tmp_path / "own") as new:
        new.partial.rename(tmp_path / "away")
        new.partial.symlink_to(tmp_path / "victim")
        with pytest.raises(OSError, match=r"own\.partial"):
            new.clear()
    assert (tmp_path / "victim" / "letter").read_text() == "dear"
