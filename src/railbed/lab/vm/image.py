"""Makes the disk that all nodes start from."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from railbed.lab.host import need_root
from railbed.lab.vm import cache, foreign
from railbed.lab.vm.initrd import make_initrd
from railbed.lab.vm.recipe import SUITE, Architecture, image_key
from railbed.lab.vm.rootfs import configure, install, kernel_release, make_disk, slim_modules
from railbed.model.record import Event

KERNEL, INITRD, DISK = "vmlinuz", "initrd", "root.raw"
NATIVE_MEGABYTES, FOREIGN_MEGABYTES = 1800, 3200


def image_folder(arch: Architecture) -> Path:
    """Return where the image of this recipe lies, or will lie."""
    return cache.images_folder() / image_key(arch)


def needed_megabytes(arch: Architecture) -> int:
    """Return what making an image takes on disk; half of it is free again afterwards."""
    return NATIVE_MEGABYTES if arch.is_native else FOREIGN_MEGABYTES


async def make_image(arch: Architecture) -> AsyncGenerator[Event, None]:
    """Make the image, telling each step."""
    need_root("making the image of a vm lab, which is done once,")
    yield Event(name="lab_image", subject="image", message=f"is made once: installing Debian {SUITE}, a minute or two")
    with cache.making(image_folder(arch), (KERNEL, INITRD, DISK)) as new:
        root, timer = new / "root", Timer()
        await install(root, arch)
        yield timer.event("image", "system installed" if arch.is_native else "packages extracted")
        if not arch.is_native:
            message = f"setting the packages up in an emulated {arch.name} machine, about ten minutes"
            yield Event(name="lab_image", subject="image", message=message)
            await foreign.finish(root, new / "scratch", arch)
            yield timer.event("image", "packages set up")
        await slim_modules(root)
        shutil.copyfile(root / f"boot/vmlinuz-{kernel_release(root)}", new / KERNEL)
        (new / INITRD).write_bytes(await asyncio.to_thread(make_initrd, root))
        await asyncio.to_thread(configure, root)
        yield timer.event("image", "kernel and configuration put in")
        await make_disk(root, new / DISK)
        yield timer.event("image", "disk written")


class Timer:
    """Measures one step after another."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def event(self, subject: str, step: str) -> Event:
        """Return a step that ended now, with its seconds."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        return Event(name="lab_image", subject=subject, message=f"{step}, {seconds:.1f} s", data={"seconds": seconds})
