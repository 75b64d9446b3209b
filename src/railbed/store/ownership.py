"""Whose run it is: only its owner stops and continues it, in a folder that nobody else can put another in place of."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from railbed.errors import UsageError, os_reason

ACCESS_LIST = "system.posix_acl_access"
MOST_LINKS = 40
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
    if _others_can_write(folder, about):
        raise UsageError(
            f"others can write to {folder}: the run does not continue", hint=f"`{_closing(folder)}` closes it to them"
        )
    refuse_replaceable(folder)


def refuse_replaceable(folder: Path) -> None:
    """Raise UsageError if anybody but this user and root can put something else in place of a folder.

    It need not exist. Every folder and link on the way to it counts; in one like /tmp, users replace only what is
    theirs.
    """
    try:
        for parent, name in _lookups(folder):
            _refuse_replaceable_in(parent, name, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be reached: {os_reason(error)}", hint=ELSEWHERE) from error


def _refuse_replaceable_in(parent: Path, name: str, folder: Path) -> None:
    about, trusted = parent.lstat(), (0, os.geteuid())
    if about.st_uid not in trusted:
        raise UsageError(
            f"{parent} belongs to {user_name(about.st_uid)}, who can put another folder in place of {folder}",
            hint=ELSEWHERE,
        )
    if not _others_can_write(parent, about):
        return
    if about.st_mode & stat.S_ISVTX and _owner(parent / name) in (None, *trusted):
        return
    close = f"`{_closing(parent)}` closes it to them, " if about.st_uid == os.geteuid() else ""
    raise UsageError(
        f"others can write to {parent}, and put another folder in place of {folder}", hint=f"{close}{ELSEWHERE}"
    )


def user_name(number: int) -> str:
    """Return the name of a user; the number, if it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _lookups(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each folder that the kernel looks a part of a path up in, and that part, up to one that does not exist."""
    at, parts, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    while parts:
        name = parts.pop()
        if name == "..":
            at = at.parent
            continue
        yield at, name
        entry = at / name
        if not entry.is_symlink():
            if not entry.exists():
                return
            at = entry
            continue
        links += 1
        if links > MOST_LINKS:
            raise UsageError(f"{path} is not a folder: a link in it leads to itself", hint=ELSEWHERE)
        target = entry.readlink()
        at = Path("/") if target.is_absolute() else at
        parts += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _owner(entry: Path) -> int | None:
    with suppress(FileNotFoundError):
        return entry.lstat().st_uid
    return None


def _others_can_write(path: Path, about: os.stat_result) -> bool:
    """Whether anybody but its owner and root can change what is in a folder."""
    if about.st_mode & stat.S_IWOTH:
        return True
    return bool(about.st_mode & stat.S_IWGRP) and not _is_private_group(path, about)


def _is_private_group(path: Path, about: os.stat_result) -> bool:
    """Whether the group of a folder is that of its owner alone, as many systems make one for each user."""
    try:
        owner, group = pwd.getpwuid(about.st_uid).pw_name, grp.getgrgid(about.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner and not set(group.gr_mem) - {owner} and not _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    """Whether the permissions of a group stand for those of others, too."""
    with suppress(OSError):  # the file system has none
        return ACCESS_LIST in os.listxattr(path)
    return False


def _closing(path: Path) -> str:
    return f"chmod go-w {shlex.quote(str(path))}"
