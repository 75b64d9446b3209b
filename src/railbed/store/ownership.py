"""Whose run it is: only its owner stops and continues it, in a folder that nobody else can put another in place of."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from railbed.errors import UsageError, os_reason
from railbed.model.writers import first_gap, other_writers, user_name

ELSEWHERE = "`RAILBED_RUNS=FOLDER` uses a folder that only you can write to"


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


def require_private_run(folder: Path) -> None:
    """Raise UsageError unless a run is a real folder that only this user can write to and replace: it continues."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise UsageError(f"{folder} is not a folder of this user: the run does not continue", hint=ELSEWHERE)
    if other_writers(folder, about):
        raise UsageError(
            f"others can write to {folder}: the run does not continue", hint=f"`{_closing(folder)}` closes it to them"
        )
    refuse_replaceable(folder)


def refuse_replaceable(folder: Path) -> None:
    """Raise UsageError if anybody but this user and root can put something else in place of a folder.

    It need not exist.
    """
    try:
        gap = first_gap(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be reached: {os_reason(error)}", hint=ELSEWHERE) from error
    if gap is None:
        return
    if not gap.writers:
        raise UsageError(
            f"{gap.place} belongs to {user_name(gap.owner)}, who can put another folder in place of {folder}",
            hint=ELSEWHERE,
        )
    close = f"`{_closing(gap.place)}` closes it to them, " if gap.owner == os.geteuid() else ""
    raise UsageError(
        f"others can write to {gap.place}, and put another folder in place of {folder}", hint=f"{close}{ELSEWHERE}"
    )


def _closing(path: Path) -> str:
    return f"chmod go-w {shlex.quote(str(path))}"
