"""Whose run it is: the process and the job that it names are ended only if its folder is this user's own."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from railbed.errors import UsageError


def refuse_foreign_run(folder: Path, command: str) -> None:
    """Raise UsageError unless a run's folder is a real folder of this user; `command` is what its owner can use."""
    about = folder.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise UsageError(f"{folder} is a link, and what it leads to may be another run", hint="name the folder itself")
    if about.st_uid != os.geteuid():
        owner = user_name(about.st_uid)
        hint = f"`sudo -u {owner} {command}`" if os.geteuid() == 0 else f"{owner} can use `{command}`"
        raise UsageError(
            f"{folder.name} is a run of {owner}, and only {owner} can do this: nothing was done", hint=hint
        )


def user_name(number: int) -> str:
    """Return the name of a user; the number, if it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
