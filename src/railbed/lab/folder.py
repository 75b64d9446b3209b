"""Labs on disk: one folder each in the user's cache, locked while something changes it.

`labs/NAME/lab.json` is written before anything else of a lab and removed last, so the next `up` or `down` finds what an
interruption left behind.

What a lab or an image left on this machine is removed, and never what is mounted or linked there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from railbed.errors import UsageError, os_reason
from railbed.lab.host import HostFault
from railbed.lab.model import Fault, Spec, StoredLab
from railbed.model.cluster import Cluster
from railbed.model.text import expand_home
from railbed.store import write_atomically
from railbed.store.cache import cache_folder, make_folder, open_private, read_cached, refuse_foreign, refuse_planted
from railbed.store.run import PRIVATE

REMOVE_SECONDS = 10.0


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder and its content, but never what is linked, or mounted below it.

    The folder that it is in is opened once, not through a link, and all is removed relative to that.
    """
    with suppress(FileNotFoundError):
        within = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if stat.S_ISDIR(os.lstat(path.name, dir_fd=within).st_mode):
                _remove_folder(path, within)
            else:
                os.unlink(path.name, dir_fd=within)
        finally:
            os.close(within)


def _remove_folder(path: Path, within: int) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while True:
        os.lstat(path.name, dir_fd=within)  # ends this if somebody else has removed it
        if mounts := mounts_below(path):
            raise HostFault(f"{mounts[0]} is a mount and was not removed", hint=f"umount it, then remove {path}")
        try:
            shutil.rmtree(path.name, dir_fd=within)
        except OSError as error:
            # A process that was just killed may still be writing, or another railbed is removing it, too.
            if time.monotonic() > deadline:
                raise HostFault(f"{path} cannot be removed: {error.strerror}") from error
            time.sleep(0.05)
        else:
            return


def mounts_below(path: Path) -> list[str]:
    """Return what is mounted on a folder or below it."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = (line.split()[4].encode("latin-1", "replace").decode("unicode_escape") for line in lines)
    return [point for point in points if Path(point).is_relative_to(path.resolve())]


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
ABOUT = "lab.json"
DEFAULT_NAME = "lab"
NUMBERS = range(1, 255)
LOCK_SECONDS = 5.0
HOMES = "homes"
"""Folder in a lab's with the home folders of its nodes, in which they may have put anything."""
MACHINE = Path("/run/railbed")
"""Folder of root alone whose lock is that of the machine; others could hold the lock of one that they can open."""


class LabBusy(UsageError):
    """Another railbed works on this lab right now."""


class NumberTaken(UsageError):
    """Another process of this machine has just begun to use the addresses of a lab's number."""


def labs_folder() -> Path:
    """Return the folder of all labs."""
    return cache_folder("labs")


def check_name(name: str) -> None:
    """Refuse a name that is not valid as a folder and a hostname."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid lab name", hint="letters, digits, - and _, at most 32")


def load_labs() -> list[StoredLab]:
    """Return all labs, by name."""
    folders: list[Path] = []
    with suppress(FileNotFoundError):
        folders = sorted(labs_folder().iterdir())
    return [lab for folder in folders if (lab := _load(folder))]


def load_lab(name: str) -> StoredLab:
    """Return a lab by name."""
    check_name(name)
    lab = _load(labs_folder() / name)
    if lab is None:
        names = ", ".join(lab.spec.name for lab in load_labs())
        raise UsageError(
            f"there is no lab called {name!r}",
            hint=f"existing labs: {names}" if names else "`railbed lab up` creates one",
        )
    return lab


def remove_empty() -> Iterator[str]:
    """Remove folders without a lab.json that nobody has locked, and yield their names."""
    with suppress(OSError):
        for path in sorted(labs_folder().iterdir()):
            refuse_foreign(path)
            if not (path / ABOUT).exists():
                with suppress(OSError, LabBusy, HostFault), _flock(path, seconds=0):
                    if not (path / ABOUT).exists():
                        remove_tree(path)
                        yield path.name


def name_option(name: str) -> str:
    """Return the option that names a lab in a command; empty if it is not needed."""
    alone = name == DEFAULT_NAME and all(lab.spec.name == name for lab in load_labs())
    return "" if alone else f" --name {name}"


def lab_of(cluster: Cluster) -> str | None:
    """Return the name of the lab in this cache that a cluster file describes; None if it is of none, or of another."""
    if cluster.lab is None or cluster.login.key is None:
        return None
    folder = expand_home(cluster.login.key).parent
    return cluster.lab if folder.resolve() == (labs_folder() / cluster.lab).resolve() else None


def chosen_lab(name: str | None) -> StoredLab:
    """Return the lab of that name; without one, the only lab."""
    if name is not None:
        return load_lab(name)
    labs = load_labs()
    if not labs:
        raise UsageError("there is no lab", hint="`railbed lab up` creates one")
    if len(labs) > 1:
        raise UsageError(
            "there are several labs", hint=f"choose one: --name {' or '.join(lab.spec.name for lab in labs)}"
        )
    return labs[0]


@contextmanager
def create_lab(spec: Spec, taken: set[int]) -> Iterator[StoredLab]:
    """Create a lab's folder and hold its lock; its number is neither another lab's nor in `taken`."""
    check_name(spec.name)
    folder = labs_folder() / spec.name
    with ExitStack() as held:
        try:
            with _flock(make_folder("labs")):
                if _load(folder):
                    hint = f"`railbed lab down --name {spec.name}` ends it; --name chooses another name"
                    raise UsageError(f"lab {spec.name!r} already exists", hint=hint)
                number = _free_number(taken)
                _make_empty(folder)
                # Locked before anyone can see it: others remove a lab that is neither up nor locked.
                held.enter_context(_flock(folder))
                lab = StoredLab(spec=spec, number=number, id=secrets.token_hex(2), folder=folder)
                save(lab)
        except OSError as error:
            raise UsageError(f"{error.filename or folder} cannot be written: {os_reason(error)}") from error
        yield lab


def renumber(lab: StoredLab, taken: set[int]) -> StoredLab:
    """Give a lab another number, which is neither another lab's nor in `taken`."""
    with _flock(labs_folder()):
        other = replace(lab, number=_free_number(taken))
        save(other)
    return other


def _make_empty(folder: Path) -> None:
    """Create a folder without remains: the files of a lab are written without another look at what is there."""
    with suppress(FileNotFoundError), _flock(folder):
        remove_tree(folder)
    folder.mkdir(mode=0o700)


def _free_number(taken: set[int]) -> int:
    used = {lab.number for lab in load_labs()} | taken
    number = next((number for number in NUMBERS if number not in used), None)
    if number is None:
        raise UsageError(
            "no addresses are left for another lab", hint="`railbed lab down --name NAME` ends one that is not needed"
        )
    return number


def save(lab: StoredLab) -> None:
    """Write the state of a lab atomically."""
    about = {
        "spec": asdict(lab.spec),
        "number": lab.number,
        "id": lab.id,
        "state": lab.state,
        "faults": [asdict(f) for f in lab.faults],
    }
    write_atomically(lab.folder / ABOUT, (json.dumps(about, indent=1) + "\n").encode(), mode=PRIVATE)


def remove(lab: StoredLab) -> None:
    """Remove the files of a lab and of its nodes; lab.json goes last."""
    refuse_foreign(lab.folder)
    for path in lab.folder.iterdir():
        if path.name != ABOUT:
            remove_tree(path)
    remove_tree(lab.folder)
    for folder in (labs_folder(), cache_folder()):
        try:
            folder.rmdir()
        except OSError:
            return


@contextmanager
def machine_locked() -> Iterator[None]:
    """Hold a machine-wide lock, so that all labs of root choose different numbers; other users lock nothing here."""
    if os.geteuid() != 0:
        yield
        return
    try:
        with suppress(FileExistsError):
            MACHINE.mkdir(mode=0o700)
        about = MACHINE.lstat()
    except OSError as error:
        raise HostFault(f"{MACHINE} cannot be created: {os_reason(error)}") from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != 0:
        raise HostFault(f"{MACHINE} is not a folder of root", hint=f"look at it, then `rm -r {MACHINE}`")
    with _flock(MACHINE):
        yield


@contextmanager
def lock_lab(lab: StoredLab) -> Iterator[StoredLab]:
    """Hold the lock of a lab, and yield its current state."""
    try:
        with _flock(lab.folder):
            yield _load(lab.folder) or lab
    except FileNotFoundError as error:
        raise UsageError(f"there is no lab called {lab.spec.name!r}") from error


def is_busy(lab: StoredLab) -> bool:
    """Whether another process holds a lab's lock."""
    try:
        with _flock(lab.folder, seconds=0):
            return False
    except LabBusy:
        return True
    except FileNotFoundError:
        return False


@contextmanager
def _flock(folder: Path, *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold a folder's lock; the kernel releases it with the process, however that ends."""
    descriptor = open_private(folder)
    deadline = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LabBusy(
                        f"another railbed is {'starting a lab' if folder == MACHINE else f'working on {folder.name}'}",
                        hint="wait until it is done",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _load(folder: Path) -> StoredLab | None:
    refuse_foreign(folder)
    if not os.path.lexists(folder / ABOUT):
        return None  # remains, which are removed as they are
    refuse_planted(folder, skip=[HOMES])
    try:
        about: dict[str, Any] = json.loads(read_cached(folder / ABOUT))
        faults = tuple(Fault(**fault) for fault in about["faults"])
        lab = StoredLab(spec=Spec(**about["spec"]), number=about["number"], id=about["id"], folder=folder)
        return replace(lab, state=about["state"], faults=faults)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{folder / ABOUT} cannot be read: {error}", hint=f"if no lab of that name is running, remove {folder}"
        ) from error
