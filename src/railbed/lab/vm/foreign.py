"""Packages for another processor: extracted here, and set up inside an emulated machine.

dpkg runs scripts of packages with programs of the new system. If this machine cannot run those, the system boots
once with nothing but dpkg, which sets up the extracted packages, and is read back from its disk.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from railbed.lab.host import HostFault, run
from railbed.lab.vm import recipe
from railbed.lab.vm.initrd import make_initrd
from railbed.lab.vm.recipe import BOOT_OPTIONS, HERE, Architecture
from railbed.lab.vm.rootfs import depmod, kernel_release, make_disk
from railbed.lab.vm.watch import follow_log

SCRIPT, MODES = "finish-packages.sh", "special-modes"
DONE = "railbed: packages are set up"
MEMORY = 1024
STAGE = "Setting up "
SECONDS = 7200.0
"""Longest time for it; it takes some minutes on a machine that does nothing else."""
KERNEL, INITRD, DISK, CONSOLE = "vmlinuz", "initrd", "disk.raw", "console.log"


async def finish(root: Path, scratch: Path, arch: Architecture) -> AsyncGenerator[str, None]:
    """Set up the packages of a root file system in an emulated machine; yield each stage as dpkg names it.

    The scratch folder must not exist yet.
    """
    await depmod(root)
    await asyncio.to_thread(_prepare, root, scratch)
    await make_disk(root, scratch / DISK)
    machine = asyncio.create_task(run(command(arch), cwd=scratch, seconds=SECONDS))
    async with aclosing(follow_log(machine, scratch / CONSOLE, last_line, most=SECONDS)) as stages:
        async for stage in stages:
            yield stage
    lines = _lines(scratch / CONSOLE)
    if DONE not in lines:
        raise HostFault(f"the packages of the image could not be set up: {complaint(lines)}")
    await asyncio.to_thread(_empty, root)
    # The last writes may still be in the journal only, which debugfs does not read.
    await run(["e2fsck", "-f", "-p", str(scratch / DISK)], check=False)
    await run(["debugfs", "-R", f"rdump / {root}", str(scratch / DISK)], seconds=300)
    await asyncio.to_thread(restore_modes, root)
    await asyncio.to_thread(shutil.rmtree, scratch)


def _prepare(root: Path, scratch: Path) -> None:
    scratch.mkdir()
    shutil.copyfile(root / f"boot/vmlinuz-{kernel_release(root)}", scratch / KERNEL)
    (scratch / INITRD).write_bytes(make_initrd(root))
    shutil.copyfile(HERE / SCRIPT, root / SCRIPT)
    (root / SCRIPT).chmod(0o755)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def restore_modes(root: Path) -> None:
    """Restore the setuid bits of programs such as sudo: debugfs sets the owner last, which clears them."""
    modes = root / MODES
    for line in modes.read_text(encoding="utf-8").splitlines():
        mode, _, name = line.partition(" ")
        (root / name).chmod(int(mode, 8))
    modes.unlink()


def command(arch: Architecture) -> list[str]:
    """Return QEMU's command line, to run in the folder of the files."""
    return [
        *(arch.qemu, "-name", "guest=railbed-packages", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-no-reboot", "-machine", arch.machine, "-m", f"{MEMORY}M", *recipe.arguments("tcg", arch)),
        *("-kernel", KERNEL, "-initrd", INITRD),
        *("-append", f"console={arch.console} {BOOT_OPTIONS} init=/{SCRIPT}"),
        *("-chardev", f"file,id=console,path={CONSOLE}", "-serial", "chardev:console"),
        *("-drive", f"if=none,id=root,file={DISK},format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=root"),
        *("-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng"),
    ]


def last_line(console: Path) -> str:
    """Return the package that is being set up, from the console."""
    return next((line for line in reversed(_lines(console)) if line.startswith(STAGE)), "booting")


def _lines(console: Path) -> list[str]:
    try:
        return console.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def complaint(lines: list[str]) -> str:
    """Return the most specific error line of the console."""
    filled = [line.strip() for line in lines if line.strip()]
    errors = (line for line in filled if line.startswith("dpkg: error") or "Kernel panic" in line)
    return next(errors, filled[-1] if filled else "the machine printed nothing")
