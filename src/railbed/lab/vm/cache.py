"""Images and saved machines in the user's cache: made under a lock, beside their place, and moved there when whole.

images/ARCH-KEY/                 vmlinuz, initrd, root.raw, manifest.json
images/ARCH-KEY/training/KEY/    training.raw, manifest.json
images/ARCH-KEY/states/NAME/     ram, vmstate, base.qcow2, manifest.json
images/ARCH-KEY/states/NAME.bad  an accelerator that does not boot here
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
from railbed.lab.folder import cache_folder, labs_folder
from railbed.lab.host import HostFault
from railbed.lab.removal import remove_tree

MANIFEST = "manifest.json"
USED = "image"
"""File in a lab's folder that names the saved machine its nodes go on from."""
NEW = ".new-"
LOCK_PAUSE = 0.2


def images_folder() -> Path:
    """Return the folder of all images."""
    return cache_folder() / "images"


@asynccontextmanager
async def locked() -> AsyncIterator[None]:
    """Let nobody else make or remove images; waits as long as somebody makes one."""
    descriptor = _open_lock()
    try:
        while not _try_lock(descriptor):  # noqa: ASYNC110  (others hold it)
            await asyncio.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)


def is_busy() -> bool:
    """Whether somebody makes or removes images right now."""
    descriptor = _open_lock()
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _open_lock() -> int:
    try:
        images_folder().mkdir(parents=True, exist_ok=True)
        return os.open(images_folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostFault(f"{error.filename} cannot be written: {os_reason(error)}") from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_whole(folder: Path) -> bool:
    """Whether everything is there, as long as it was when it was made."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest) and all((folder / name).stat().st_size == size for name, size in manifest.items())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False


@contextmanager
def making(folder: Path, kept: tuple[str, ...]) -> Iterator[Path]:
    """Lend a new folder beside the wanted one; what is to be kept of it gets there if all went well, or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.parent / f"{NEW}{secrets.token_hex(4)}"
    new.mkdir(mode=0o700)
    try:
        yield new
        for path in new.iterdir():
            if path.name not in kept:
                remove_tree(path)
        for name in kept:
            _write_through(new / name)
        manifest = new / MANIFEST
        manifest.write_text(json.dumps({name: (new / name).stat().st_size for name in kept}), encoding="utf-8")
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
    """Keep which saved machine a lab goes on from, so that it stays as long as the lab."""
    (lab_folder / USED).write_text(f"{state.relative_to(images_folder())}\n", encoding="utf-8")


def chosen(lab_folder: Path) -> Path:
    """Return the saved machine that a lab goes on from."""
    return images_folder() / (lab_folder / USED).read_text(encoding="utf-8").strip()


def clear_unless_busy() -> None:
    """Remove what was never finished, unless somebody is at it."""
    descriptor = _open_lock()
    try:
        if _try_lock(descriptor):
            clear()
            with contextlib.suppress(OSError):
                images_folder().rmdir()
    finally:
        os.close(descriptor)


def clear(keep: Path | None = None) -> None:
    """Remove what was never finished; with a saved machine to keep, also images and its like that no lab goes on from.

    Its like are machines of the same memory that another QEMU saved. Images for other processors stay.
    """
    for folder in (images_folder(), *images_folder().glob("*/states"), *images_folder().glob("*/training")):
        for path in folder.glob(f"{NEW}*"):
            remove_tree(path)
    if keep is None:
        return
    used = {keep}
    for path in labs_folder().glob(f"*/{USED}"):
        with contextlib.suppress(OSError):
            used.add(chosen(path.parent))
    for image in images_folder().iterdir():
        if _processor(image) not in ("", _processor(keep.parent.parent)):
            continue
        if not any(state.is_relative_to(image) for state in used):
            remove_tree(image)
        for state in (image / "states").glob(f"{keep.name.rpartition('-')[0]}-*"):
            if state not in used:
                remove_tree(state)
    _clear_disks(keep.parent.parent)


def _processor(image: Path) -> str:
    """Return which processor an image is for; older ones do not say."""
    return image.name.rpartition("-")[0]


def _clear_disks(image: Path) -> None:
    """Remove what no saved machine of an image trains with any more."""
    saved = [state.name for state in (image / "states").iterdir()]
    for disk in (image / "training").glob("*"):
        if not any(f"+{disk.name}-" in name for name in saved):
            remove_tree(disk)
