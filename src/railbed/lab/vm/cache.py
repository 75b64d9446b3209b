"""Images and saved machines in the user's cache: made under a lock in a temporary folder, and moved when complete.

images/ARCH-KEY/                 vmlinuz, initrd, root.raw, manifest.json
images/ARCH-KEY/training/KEY/    training.raw, manifest.json
images/ARCH-KEY/states/NAME/     ram, vmstate, base.qcow2, manifest.json
images/kvm-HOST.failed           why KVM boots no guest on this processor and kernel
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from railbed.errors import os_reason
from railbed.lab.folder import labs_folder, remove_tree
from railbed.lab.host import HostFault
from railbed.model.private import make_private
from railbed.store.cache import cache_folder, make_folder, open_private, read_cached, refuse_foreign, refuse_planted

IMAGES, STATES, TRAINING = "images", "states", "training"
MANIFEST = "manifest.json"
USED = "image"
"""File in a lab's folder that names the saved machine its nodes resume from."""
NEW = ".new-"
LOCK_PAUSE = 0.2


def images_folder() -> Path:
    """Return the folder of all images."""
    return cache_folder(IMAGES)


@asynccontextmanager
async def lock_images() -> AsyncIterator[None]:
    """Hold the lock for making and removing images; wait for whoever holds it."""
    descriptor = _open_lock()
    try:
        while not _try_lock(descriptor):  # noqa: ASYNC110  (others hold it)
            await asyncio.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)


def is_busy() -> bool:
    """Whether another railbed is making or removing images."""
    descriptor = _open_lock()
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _open_lock() -> int:
    try:
        return open_private(make_folder(IMAGES))
    except OSError as error:
        raise HostFault(f"{error.filename} cannot be written: {os_reason(error)}") from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_whole(folder: Path) -> bool:
    """Whether all files exist with the size they had when they were made.

    Raise ForeignCache unless all of them are this user's alone, which is what proves their origin: whoever could change
    one could change a checksum beside it, too.
    """
    refuse_planted(folder, skip=[STATES, TRAINING])
    try:
        manifest = json.loads(read_cached(folder / MANIFEST))
        return bool(manifest) and all((folder / name).stat().st_size == size for name, size in manifest.items())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False


@contextmanager
def making(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield a temporary folder, and move the files to keep to `folder` if the block succeeds."""
    make_private(folder.parent)
    refuse_foreign(folder.parent)
    new = folder.parent / f"{NEW}{secrets.token_hex(4)}"
    new.mkdir(mode=0o700)
    try:
        yield new
        for path in new.iterdir():
            if path.name not in names:
                remove_tree(path)
        for name in names:
            (new / name).chmod(0o600)
            _write_through(new / name)
        manifest = new / MANIFEST
        manifest.write_text(json.dumps({name: (new / name).stat().st_size for name in names}), encoding="utf-8")
        _write_through(manifest)
        remove_tree(folder)
        new.rename(folder)
    except OSError as error:
        raise HostFault(f"the image cannot be written: {os_reason(error)} ({error.filename or new})") from error
    finally:
        remove_tree(new)


def _write_through(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def choose(lab_folder: Path, state: Path) -> None:
    """Record which saved machine a lab resumes from, so that it is kept as long as the lab."""
    (lab_folder / USED).write_text(f"{state.relative_to(images_folder())}\n", encoding="utf-8")


def find_saved_machine(lab_folder: Path) -> Path:
    """Return the saved machine that a lab resumes from."""
    state = cache_folder(IMAGES, *read_cached(lab_folder / USED).decode().strip().split("/"))
    refuse_planted(state)
    refuse_planted(state.parent.parent, skip=[STATES, TRAINING])
    return state


def clear_unless_busy() -> None:
    """Remove unfinished images, unless another railbed holds the lock."""
    descriptor = _open_lock()
    try:
        if _try_lock(descriptor):
            clear()
            with contextlib.suppress(OSError):
                images_folder().rmdir()
    finally:
        os.close(descriptor)


def clear(keep: Path | None = None) -> None:
    """Remove unfinished images; with a machine to keep, also images and similar machines that no lab resumes from.

    Similar machines have the same memory and were saved by another QEMU. Images for other processors stay.
    """
    _clear_unfinished()
    if keep is None:
        return
    used = {keep}
    for path in labs_folder().glob(f"*/{USED}"):
        with contextlib.suppress(OSError):
            used.add(find_saved_machine(path.parent))
    for image in images_folder().iterdir():
        if _processor(image) not in ("", _processor(keep.parent.parent)):
            continue
        if not any(state.is_relative_to(image) for state in used):
            remove_tree(image)
        for state in (image / STATES).glob(f"{keep.name.rpartition('-')[0]}-*"):
            if state not in used:
                remove_tree(state)
    _clear_disks(keep.parent.parent)


def _clear_unfinished() -> None:
    """Remove what was being made when a railbed ended."""
    for path in images_folder().iterdir():
        refuse_foreign(path)
    for folder in (images_folder(), *images_folder().glob(f"*/{STATES}"), *images_folder().glob(f"*/{TRAINING}")):
        refuse_foreign(folder)
        for path in folder.glob(f"{NEW}*"):
            remove_tree(path)


def _processor(image: Path) -> str:
    """Return the processor of an image; the names of older images do not have it."""
    return image.name.rpartition("-")[0]


def _clear_disks(image: Path) -> None:
    """Remove training disks that no saved machine of an image uses."""
    saved = [state.name for state in (image / STATES).iterdir()]
    for disk in (image / TRAINING).glob("*"):
        if not any(f"+{disk.name}-" in name for name in saved):
            remove_tree(disk)
