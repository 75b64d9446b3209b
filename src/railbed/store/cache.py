"""The user's cache folder: labs, images, tokens and locks, which do not belong to one working folder.

What is in it is executed (images), removed (labs) or trusted (tokens), so it must be this user's alone: the folder and
everything in it that is used belong to this user, and nobody else can write to it or replace a folder above it. Links
are followed only in its own path, which the user chose, and only those that nobody else made. A path that passes
cannot change hands before it is used, so one check is enough.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from railbed.errors import UsageError
from railbed.model.private import make_private
from railbed.model.text import expand_home
from railbed.model.writers import first_gap, other_writers, user_name

ROOT = 0
ELSEWHERE = "RAILBED_CACHE=FOLDER uses another one"


class ForeignCache(UsageError):
    """Another account owns a part of the cache, can write to it, or has put a link there."""


def cache_folder(*below: str) -> Path:
    """Return `$RAILBED_CACHE`, by default `railbed` in the user's cache folder, or a path below it.

    Raise ForeignCache if an existing part of it is not this user's alone.
    """
    override = os.environ.get("RAILBED_CACHE")
    if override:
        path = expand_home(override).absolute()
    else:
        home = expand_home(os.environ.get("XDG_CACHE_HOME") or "~/.cache").absolute()
        path = home / "railbed"
        with suppress(OSError):
            if not path.exists() and not os.access(home, os.W_OK | os.X_OK, effective_ids=True):
                _refuse_owner(home, home.stat())
    _refuse_way(path)
    for name in below:
        path /= name
        refuse_foreign(path)
    return path


def make_folder(*below: str) -> Path:
    """Create the cache folder, or a folder below it, for this user alone unless it exists; return it."""
    make_private(cache_folder(*below))
    # Where everybody may create folders, another account may have been quicker.
    return cache_folder(*below)


def refuse_foreign(path: Path) -> None:
    """Raise ForeignCache if something in the cache is a link, or not this user's alone."""
    with suppress(OSError):  # whoever uses it explains
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            raise ForeignCache(
                f"{path} is a link of {user_name(about.st_uid)}, and railbed follows none in its cache",
                hint=f"`rm {shlex.quote(str(path))}` removes it; RAILBED_CACHE=FOLDER uses another place",
            )
        _refuse_owner(path, about)
        who = other_writers(path, about)
        if who and (stat.S_ISDIR(about.st_mode) or path.parent.lstat().st_mode & 0o077):
            owner = user_name(about.st_uid)
            raise ForeignCache(
                f"{path}, in which railbed keeps its files, belongs to {owner}, and {who} can write to it",
                hint=f"look at what is in it, then `chmod -R go-w {shlex.quote(str(path))}`; or {ELSEWHERE}",
            )


def refuse_planted(folder: Path, *, skip: Collection[str] = ()) -> None:
    """Raise ForeignCache if anything in a folder is a link, or not this user's alone.

    Folders with a name in `skip` are not entered.
    """
    refuse_foreign(folder)
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(folder.iterdir())
    for path in paths:
        if path.is_dir() and path.name not in skip:
            refuse_planted(path, skip=skip)
        else:
            refuse_foreign(path)


def read_cached(path: Path) -> bytes:
    """Read a file of the cache; raise ForeignCache if it is not this user's alone, OSError if it is not a file."""
    refuse_foreign(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        return file.read()


def open_private(folder: Path) -> int:
    """Open a folder of this user to lock it, and close it to others: who can open a folder can hold its lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    about = os.fstat(descriptor)
    if about.st_uid == os.geteuid() and about.st_mode & 0o077:
        os.fchmod(descriptor, 0o700)
    return descriptor


def _refuse_way(path: Path) -> None:
    """Raise ForeignCache if another account can replace what a path leads to, or owns it."""
    with suppress(OSError):  # whoever uses it explains
        gap = first_gap(path)
        if gap and (gap.place != path or gap.is_link):
            owner = user_name(gap.owner)
            where = f"the cache of railbed is below {gap.place}, which belongs to {owner}"
            if gap.writers:
                where += f", and {gap.writers} can write to it"
            if gap.is_link:
                where = f"the path to the cache of railbed has {gap.place} in it, a link of {owner}"
            raise ForeignCache(where, hint=_use_another())
        refuse_foreign(path.resolve())


def _refuse_owner(path: Path, about: os.stat_result) -> None:
    if about.st_uid == os.geteuid():
        return
    hint = _use_another()
    if about.st_uid == ROOT:
        take = f"sudo chown -R {shlex.quote(user_name(os.geteuid()))} {shlex.quote(str(path))}"
        hint = f"`{take}` gives it to you, {ELSEWHERE}"
    raise ForeignCache(f"{path}, in which railbed keeps its files, belongs to {user_name(about.st_uid)}", hint=hint)


def _use_another() -> str:
    """Return the remedy; a user's cache is mostly that of whoever typed `sudo -E`."""
    if os.geteuid() == ROOT and not os.environ.get("RAILBED_CACHE"):
        return f"`sudo -H` without -E uses the cache of root, {ELSEWHERE}"
    return ELSEWHERE
