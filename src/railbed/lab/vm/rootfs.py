"""The files of a node: Debian's packages without what a lab does not need, and our own files."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import shlex
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from railbed.lab.host import HostFault, run
from railbed.lab.vm.recipe import (
    DISK_MEGABYTES,
    GUEST,
    HERE,
    JOURNAL_MEGABYTES,
    KEPT_MODULES,
    MODULE,
    PACKAGES,
    SUITE,
    Architecture,
)
from railbed.lab.vm.watch import follow_log

INSTALL_SECONDS = 7200.0
"""Longest time for the installation: a slow mirror is not an error."""
STAGE = "I: "
MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
WITHOUT = ("doc", "man", "locale", "info", "lintian")
UDEV_RULES = (
    "50-udev-default.rules",
    "60-persistent-storage.rules",
    "73-special-net-names.rules",
    "75-net-description.rules",
    "80-drivers.rules",
    "80-net-setup-link.rules",
    "99-systemd.rules",
)
NO_SPACE = "No space left on device"
BUILD_MODULE = "/tmp/module/build-module.sh"  # noqa: S108  (of the new system)
OWN_MODULES = "extra/*"
STARTED = ("railbed-identity.service", "railbed-rails.service", "railbed-training.service", "railbed-warm.service")


async def install(root: Path, arch: Architecture) -> AsyncGenerator[str, None]:
    """Install the packages, unpack the kernel and build its module; yield each stage as the installer names it.

    Packages for another processor are extracted, but not set up; such an image has no module.

    Mounts and processes are in their own namespaces, so that none outlives an interruption.
    """
    log = root.with_suffix(".log")
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    script = 'log=$1; shift; exec "$@" >"$log" 2>&1'
    command = [*apart, "sh", "-c", script, "sh", str(log), *_mmdebstrap(root, arch)]
    installing = asyncio.create_task(run(command, seconds=INSTALL_SECONDS))
    try:
        async with aclosing(follow_log(installing, log, stage, most=INSTALL_SECONDS)) as stages:
            async for name in stages:
                yield name
    except HostFault as error:
        raise _failure(
            complaint(log) if not installing.cancelled() and complaint(log) else error.message, root
        ) from error


def stage(log: Path) -> str:
    """Return the current stage of the installation, from its log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return next((line.removeprefix(STAGE).rstrip(" .") for line in reversed(lines) if line.startswith(STAGE)), "")


def _failure(message: str, root: Path) -> HostFault:
    if NO_SPACE in message:
        return HostFault(
            f"the image does not fit: there is no space left in {root.parent.parent}",
            hint="free some space, or set RAILBED_CACHE=FOLDER to another place",
        )
    return HostFault(
        f"Debian could not be installed into the image: {message}",
        hint="RAILBED_MIRROR=URL names another mirror than Debian's own",
    )


def _mmdebstrap(root: Path, arch: Architecture) -> list[str]:
    options = [
        'Apt::Install-Recommends "false"',
        'Acquire::Languages "none"',
        'Acquire::Retries "1"',
        'Acquire::http::Timeout "15"',
    ]
    mirror = os.environ.get("RAILBED_MIRROR")
    return [
        *("mmdebstrap", "--verbose", "--mode=root", f"--architectures={arch.debian}"),
        *(_native_options(arch) if arch.is_native else _foreign_options(arch)),
        f"--keyring={KEYRING}",
        f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={option}" for option in options),
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in WITHOUT),
        "--dpkgopt=force-unsafe-io",
        *(SUITE, str(root), *([mirror] if mirror else [])),
    ]


def _native_options(arch: Architecture) -> list[str]:
    return [
        "--variant=minbase",
        _hook("customize", "unpack-kernel.sh", f"linux-image-{arch.debian}"),
        _hook("customize", "fetch-compiler.sh", shlex.quote(str(MODULE))),
        f'--customize-hook=chroot "$1" sh {BUILD_MODULE}',
    ]


def _foreign_options(arch: Architecture) -> list[str]:
    """Return options for packages whose programs do not run on this machine."""
    return [
        *("--variant=extract", "--skip=check/qemu", "--include=?or(?essential,?priority(required))"),
        f"--hook-dir={MERGED_USR}",
        _hook("extract", "note-unpacked.sh", arch.debian),
        _hook("extract", "unpack-kernel.sh", f"linux-image-{arch.debian}"),
    ]


def _hook(stage: str, script: str, argument: str) -> str:
    return f'--{stage}-hook=sh {shlex.quote(str(HERE / script))} "$1" {argument}'


def complaint(log: Path) -> str:
    """Return the most specific error line of a log."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except FileNotFoundError:
        return ""
    full = (line for line in lines if NO_SPACE in line)
    candidates = (
        line for start in ("E: Failed", "W: Failed", "E:", "") for line in reversed(lines) if line.startswith(start)
    )
    return next(full, next(candidates, "")).removeprefix("E: ")


def kernel_release(root: Path) -> str:
    """Return the version of the kernel that was unpacked."""
    return next(path.name for path in sorted((root / "usr/lib/modules").iterdir()))


async def slim_modules(root: Path) -> None:
    """Remove the kernel's modules that no lab needs, which is nine tenths of them; our own stays."""
    await depmod(root)
    modules = root / "usr/lib/modules" / kernel_release(root)
    needs = dependencies(modules)
    patterns = [OWN_MODULES, *(f"kernel/{pattern}" for pattern in KEPT_MODULES)]
    needed = {name for name in needs if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)}
    needed |= {need for name in needed for need in needs[name]}
    for name in needs.keys() - needed:
        (modules / name).unlink()
    await depmod(root)


async def depmod(root: Path) -> None:
    """Write the dependencies between modules; the host's depmod reads modules for any processor."""
    await run(["depmod", "--basedir", str(root), kernel_release(root)])


def dependencies(modules: Path) -> dict[str, list[str]]:
    """Return the dependencies of each module, in the order to remove them in."""
    lines = (modules / "modules.dep").read_text(encoding="utf-8").splitlines()
    return {name: needs.split() for name, _, needs in (line.partition(":") for line in lines)}


def configure(root: Path) -> None:
    """Add our own files, switch off what a node does not need, and remove traces of this machine."""
    for source in GUEST.rglob("*"):
        if source.is_file() and source.suffix != ".pyc":
            target = root / source.relative_to(GUEST)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(0o644)
    units = root / "etc/systemd/system"
    for name in (HERE / "masked-units").read_text(encoding="utf-8").split():
        _link(units / name, "/dev/null")
    _link(root / "etc/udev/rules.d/60-rdma-persistent-naming.rules", "/dev/null")
    for name in STARTED:
        _link(units / "multi-user.target.wants" / name, f"../{name}")
    _link(units / "multi-user.target.wants/systemd-networkd.service", "/lib/systemd/system/systemd-networkd.service")
    _link(units / "default.target", "/lib/systemd/system/multi-user.target")
    _remove_extras(root)
    shadow = root / "etc/shadow"
    lines = shadow.read_text(encoding="utf-8").splitlines(keepends=True)
    shadow.write_text(
        "".join("root:*" + line[line.index(":", 5) :] if line.startswith("root:") else line for line in lines)
    )


async def make_disk(root: Path, disk: Path) -> None:
    """Write a disk that holds a root file system."""
    with disk.open("wb") as file:
        os.truncate(file.fileno(), DISK_MEGABYTES << 20)
    # A journal that mkfs makes would be written out in full.
    options = ["-q", "-F", "-L", "railbed", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard"]
    await run(["mkfs.ext4", *options, "-d", str(root), str(disk)], seconds=300)
    await run(["tune2fs", "-O", "has_journal", "-J", f"size={JOURNAL_MEGABYTES}", str(disk)])


def _remove_extras(root: Path) -> None:
    for rule in (root / "usr/lib/udev/rules.d").iterdir():
        if rule.name not in UDEV_RULES:
            rule.unlink()
    globs = [
        "boot/*",
        "etc/hostname",
        "etc/rdma/modules/*",
        "etc/resolv.conf",
        "etc/ssh/ssh_host_*",
        "usr/lib/systemd/system-generators/*",
        "usr/lib/udev/hwdb.bin",
        "var/cache/apt/*",
        "var/lib/apt/lists/*",
        "var/lib/dbus/machine-id",
        *(f"usr/share/{name}/*" for name in WITHOUT),
    ]
    for pattern in globs:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
