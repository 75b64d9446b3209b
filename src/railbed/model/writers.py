"""Who can change a file, or put another in place of it: owners, and everybody to whom modes and ACLs give write access.

Standard library only: it is also sent to nodes, see `railbed.launch.files.client`.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ACL = "system.posix_acl_access"
MOST_LINKS = 40


class Gap(NamedTuple):
    """A place on the way to a path where another account can put something else."""

    place: Path
    owner: int
    writers: str
    """Who besides its owner can write to it; empty if the owner is the other account."""
    is_link: bool = False


def first_gap(path: Path) -> Gap | None:
    """Return the first place where anybody but this user and root can change what a path leads to, or None.

    The path need not exist, and every link on the way counts. In folders like /tmp, users replace only what is theirs.
    Raise OSError if a folder on the way cannot be read.
    """
    trusted = (0, os.geteuid())
    for parent, name in _lookups(path):
        about = parent.lstat()
        if about.st_uid not in trusted:
            return Gap(parent, about.st_uid, "")
        who = other_writers(parent, about)
        if not who:
            continue
        if not about.st_mode & stat.S_ISVTX:
            return Gap(parent, about.st_uid, who)
        with suppress(FileNotFoundError):
            entry = (parent / name).lstat()
            if entry.st_uid not in trusted:
                return Gap(parent / name, entry.st_uid, "", stat.S_ISLNK(entry.st_mode))
    return None


def other_writers(path: Path, about: os.stat_result) -> str:
    """Return who besides its owner can write to a file; the private group of its owner does not count."""
    if about.st_mode & stat.S_IWOTH:
        return "everybody"
    if not about.st_mode & stat.S_IWGRP:
        return ""
    if not _is_private(about):
        return f"the group {group_name(about.st_gid)}"
    with suppress(OSError):  # the mode of a file with an ACL shows for its group what any account in the ACL may do
        os.getxattr(path, ACL, follow_symlinks=False)
        return "accounts in its ACL"
    return ""


def distrust(path: Path) -> str:
    """Return why others may have written a file, also through links; empty if only this user and root can have."""
    about = path.stat()
    if about.st_uid not in (0, os.geteuid()):
        return f"belongs to {user_name(about.st_uid)}"
    who = other_writers(path, about)
    return f"can be written by {who}" if who else ""


def user_name(number: int) -> str:
    """Return the name of an account, or its number if it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def group_name(number: int) -> str:
    """Return the name of a group, or its number if it has none."""
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _is_private(about: os.stat_result) -> bool:
    """Whether the group of a file is that of its owner alone, as many systems make one for each user."""
    try:
        owner, group = pwd.getpwuid(about.st_uid), grp.getgrgid(about.st_gid)
    except KeyError:
        return False
    return group.gr_gid == owner.pw_gid and group.gr_name == owner.pw_name and set(group.gr_mem) <= {owner.pw_name}


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
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = entry.readlink()
        at = Path("/") if target.is_absolute() else at
        parts += reversed(target.parts[1:] if target.is_absolute() else target.parts)
