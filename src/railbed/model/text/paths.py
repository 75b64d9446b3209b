"""Paths as people type them: an unknown account after `~`, or a name that no disk allows, is a path without a file."""

from __future__ import annotations

import stat
from pathlib import Path


def expand_home(path: str | Path) -> Path:
    """Return a path with `~` expanded; if there is no such account, it stays as it is, and reading it fails."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def exists(path: Path) -> bool:
    """Whether there is anything; False also where that cannot be found out."""
    return _mode(path) != 0


def is_file(path: Path) -> bool:
    """Whether a path leads to a file."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return the kind and the permissions of a file, 0 if there is none."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0
