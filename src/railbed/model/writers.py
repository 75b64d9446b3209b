"""Who can change a file: its owner, and everybody to whom its mode and its ACL give write access.

Standard library only: it is also sent to nodes, see `railbed.launch.files.client`.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

ACL = "system.posix_acl_access"


def other_writers(path: Path, about: os.stat_result) -> str:
    """Return who besides its owner can write to a file; this user's private group does not count."""
    if about.st_mode & stat.S_IWOTH:
        return "everybody"
    if not about.st_mode & stat.S_IWGRP:
        return ""
    if not _is_private(about.st_gid):
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


def _is_private(group: int) -> bool:
    try:
        owner, about = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return group == owner.pw_gid and about.gr_name == owner.pw_name and set(about.gr_mem) <= {owner.pw_name}
