"""The user's cache folder: labs, images and locks, which do not belong to one working folder."""

from __future__ import annotations

import os
import pwd
import shlex
from contextlib import suppress
from pathlib import Path

from railbed.errors import UsageError


class ForeignCache(UsageError):
    """A folder of the cache belongs to another account, as after `sudo railbed`."""


def cache_folder(*below: str) -> Path:
    """Return `$RAILBED_CACHE`, by default `railbed` in the user's cache folder, or a path below it.

    Raise ForeignCache if an existing part of it belongs to another account and cannot be used.
    """
    override = os.environ.get("RAILBED_CACHE")
    if override:
        folder = Path(override).expanduser().absolute()
        parts = [folder]
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "railbed"
        parts = [folder.parent, folder]
    for name in below:
        parts.append(parts[-1] / name)
    for part in parts:
        refuse_foreign(part)
    return parts[-1]


def refuse_foreign(path: Path) -> None:
    """Raise ForeignCache if something in the cache belongs to another account and cannot be used."""
    with suppress(OSError):  # whoever uses it explains
        owner = path.stat().st_uid
        if owner == os.geteuid() or os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            return
        take = f"sudo chown -R {shlex.quote(_name(os.geteuid()))} {shlex.quote(str(path))}"
        raise ForeignCache(
            f"{path}, in which railbed keeps its files, belongs to {_name(owner)}",
            hint=f"`{take}` gives it to you, RAILBED_CACHE=FOLDER uses another one",
        )


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
