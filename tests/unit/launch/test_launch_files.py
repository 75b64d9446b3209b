"""Nodes that share a disk do not get in each other's way."""

from __future__ import annotations

import fcntl
import io
import os
from pathlib import Path

import pytest

from railbed.launch.files import server
from railbed.launch.files.guard import content_of


def test_a_transfer_is_never_taken_for_an_unfinished_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the folder of a transfer is locked, the lock of railbed's folder keeps other nodes from clearing it."""
    opened: list[str] = []
    really_open = os.open

    def open_while_locked(path: Path, flags: int, mode: int = 0o777) -> int:
        if path.name.startswith(server.NEW):
            opened.append(path.name)
            with (tmp_path / server.LOCK).open() as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return really_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_while_locked)
    (tmp_path / "code").mkdir()
    parcel = {"name": "code/empty", "files": 0, "digest": content_of(tmp_path / "code", lambda: None)}
    server._receive(tmp_path, parcel, io.BytesIO())
    assert len(opened) == 1
    assert (tmp_path / "code" / "empty").is_dir()
