"""Makes the disk that all nodes start from."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from railbed.lab.host import need_root, run
from railbed.lab.vm import cache
from railbed.lab.vm.initrd import make_initrd
from railbed.lab.vm.recipe import DISK_MEGABYTES, JOURNAL_MEGABYTES, SUITE, image_key
from railbed.lab.vm.rootfs import configure, install, kernel_release, slim_modules
from railbed.model.record import Event

KERNEL, INITRD, DISK = "vmlinuz", "initrd", "root.raw"
NEEDED_MEGABYTES = 1800
"""What making an image takes on disk; half of it is free again afterwards."""


def image_folder() -> Path:
    """Return where the image of this recipe lies, or will lie."""
    return cache.images_folder() / image_key()


async def make_image() -> AsyncGenerator[Event, None]:
    """Make the image, telling each step."""
    need_root("making the image of a vm lab, which is done once,")
    yield Event(name="lab_image", subject="image", message=f"is made once: installing Debian {SUITE}, a minute or two")
    with cache.making(image_folder(), (KERNEL, INITRD, DISK)) as new:
        root, timer = new / "root", Timer()
        await install(root)
        yield timer.event("image", "system installed")
        await slim_modules(root)
        shutil.copyfile(root / f"boot/vmlinuz-{kernel_release(root)}", new / KERNEL)
        (new / INITRD).write_bytes(await asyncio.to_thread(make_initrd, root))
        await asyncio.to_thread(configure, root)
        yield timer.event("image", "kernel and configuration put in")
        await _make_disk(root, new / DISK)
        yield timer.event("image", "disk written")


async def _make_disk(root: Path, disk: Path) -> None:
    with disk.open("wb") as file:
        os.truncate(file.fileno(), DISK_MEGABYTES << 20)
    # A journal that is made with the file system would be written out in full.
    options = ["-q", "-F", "-L", "railbed", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard"]
    await run(["mkfs.ext4", *options, "-d", str(root), str(disk)], seconds=300)
    await run(["tune2fs", "-O", "has_journal", "-J", f"size={JOURNAL_MEGABYTES}", str(disk)])


class Timer:
    """Measures one step after another."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def event(self, subject: str, step: str) -> Event:
        """Return a step that ended now, with its seconds."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        return Event(name="lab_image", subject=subject, message=f"{step}, {seconds:.1f} s", data={"seconds": seconds})
