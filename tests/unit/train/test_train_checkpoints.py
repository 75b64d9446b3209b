"""Saved states: complete ones are found, others are named and never used."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from railbed.errors import CheckpointDamaged
from railbed.train.state.checkpoints import Written, folder_of, publish, read_checkpoint, survey, write_synced


def save(folder: Path, step: int, content: bytes = b"weights") -> None:
    publish(folder, step, lambda beside: {"model": write_synced(beside / "model", content * 100)})


def truncate(path: Path) -> None:
    (path / "model").write_bytes((path / "model").read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray((path / "model").read_bytes())
    data[40] ^= 1
    (path / "model").write_bytes(data)


def rename_in_manifest(path: Path, name: str) -> None:
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"model"', f'"{name}"'))


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (truncate, "model has 699 bytes of 700"),
    (flip, "model has changed since it was written: its SHA-256 differs"),
    (lambda path: (path / "model").unlink(), "model cannot be read: No such file or directory"),
    (lambda path: (path / "manifest.json").unlink(), "has no manifest.json: it is incomplete"),
    (lambda path: (path / "manifest.json").write_text("{"), "manifest.json is damaged"),
    (lambda path: (path / "manifest.json").write_text('{"step": 1, "files": 3}'), "manifest.json is damaged"),
    (lambda path: rename_in_manifest(path, "../model"), "manifest.json names a file outside of it"),
    (lambda path: rename_in_manifest(path, "\\ud800"), "manifest.json names a file outside"),
    (lambda path: path.rename(path.with_name("step-00000099")), "manifest.json is that of another step"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=[expected for _, expected in DAMAGES])
def test_damage_is_named_and_the_one_before_is_used(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20)
    damage(folder_of(tmp_path, 20))
    checkpoints = survey(tmp_path)
    assert [good.step for good in checkpoints.good] == [10]
    (sentence,) = checkpoints.damaged
    assert message in sentence


def test_two_good_ones_are_kept(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        save(tmp_path, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-00000030", "step-00000040"]
    assert (tmp_path / "latest").read_text() == "step-00000040\n"


def test_a_damaged_one_does_not_count_as_kept(tmp_path: Path) -> None:
    for step in (10, 20):
        save(tmp_path, step)
    flip(folder_of(tmp_path, 20))
    save(tmp_path, 30)
    assert [good.step for good in survey(tmp_path).good] == [30, 10]


def test_a_state_of_an_undone_future_goes(tmp_path: Path) -> None:
    for step in (10, 20):
        save(tmp_path, step)
    save(tmp_path, 15)
    assert [good.step for good in survey(tmp_path).good] == [15, 10]


def test_equal_states_have_equal_hashes_wherever_they_are(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        save(tmp_path / name, 10, content)
    first, second, other = (survey(tmp_path / name).good[0].hash for name in "abc")
    assert first == second != other


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    save(tmp_path, 10)

    def full(beside: Path) -> dict[str, Written]:
        (beside / "model").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        publish(tmp_path, 20, full)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-00000010"]


def test_what_a_crash_left_is_not_a_state(tmp_path: Path) -> None:
    save(tmp_path, 10)
    shutil.copytree(folder_of(tmp_path, 10), tmp_path / ".step-00000020.new")
    assert [good.step for good in survey(tmp_path).good] == [10]
    save(tmp_path, 20)
    assert not (tmp_path / ".step-00000020.new").exists()


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 10)
    flip(folder_of(tmp_path, 10))
    save(tmp_path, 10)
    assert read_checkpoint(folder_of(tmp_path, 10)).step == 10


def test_nothing_there(tmp_path: Path) -> None:
    assert survey(tmp_path / "none").good == []
    with pytest.raises(CheckpointDamaged):
        read_checkpoint(tmp_path / "step-00000001")
