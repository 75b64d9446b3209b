"""Builds the disk that all nodes start from."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from railbed.lab.host import need_root
from railbed.lab.steps import LongSteps
from railbed.lab.vm import cache, foreign
from railbed.lab.vm.initrd import make_initrd
from railbed.lab.vm.recipe import SUITE, Architecture, image_key
from railbed.lab.vm.rootfs import configure, install, kernel_release, make_disk, slim_modules
from railbed.model import events
from railbed.model.record import Event
from railbed.store.cache import cache_folder

KERNEL, INITRD, DISK = "vmlinuz", "initrd", "root.raw"
NATIVE_MEGABYTES, FOREIGN_MEGABYTES = 2000, 3200


def image_folder(arch: Architecture) -> Path:
    """Return the folder of this recipe's image, whether it exists or not."""
    return cache_folder(cache.IMAGES, image_key(arch))


def needed_megabytes(arch: Architecture) -> int:
    """Return the disk space that building an image takes; half of it is free again afterwards."""
    return NATIVE_MEGABYTES if arch.is_native else FOREIGN_MEGABYTES


async def make_image(arch: Architecture) -> AsyncGenerator[Event, None]:
    """Build the image, and yield an event for each step."""
    need_root("building the image of a vm lab, which is done once,")
    steps = LongSteps("image")
    yield events.LabImage(subject="image", message=f"is built once, from Debian {SUITE}")
    with cache.making(image_folder(arch), (KERNEL, INITRD, DISK)) as new:
        root = new / "root"
        yield steps.begin(f"install-{arch.name}", f"installing Debian {SUITE}", usual=90.0)
        async with aclosing(install(root, arch)) as stages:
            async for stage in stages:
                yield steps.go_on(stage)
        yield steps.end("system installed" if arch.is_native else "packages extracted")
        if not arch.is_native:
            message = f"setting the packages up in an emulated {arch.name} machine"
            yield steps.begin(f"set-up-{arch.name}", message, usual=600.0)
            async with aclosing(foreign.finish(root, new / "scratch", arch)) as stages:
                async for stage in stages:
                    yield steps.go_on(stage)
            yield steps.end("packages set up")
        yield steps.begin("configure", "adding the kernel and the configuration", usual=15.0)
        await slim_modules(root)
        shutil.copyfile(root / f"boot/vmlinuz-{kernel_release(root)}", new / KERNEL)
        (new / INITRD).write_bytes(await asyncio.to_thread(make_initrd, root))
        await asyncio.to_thread(configure, root)
        yield steps.end("kernel and configuration added")
        yield steps.begin("disk", "writing the disk", usual=15.0)
        await make_disk(root, new / DISK)
        yield steps.end("disk written")
