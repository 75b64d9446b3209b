"""The disk that nodes train with: torch, numpy, mpi4py and mpich, in a virtual environment.

It is not part of the image, so that labs that do not train start from a small saved machine. It is built from wheels
alone, so this machine's Python may have another version than that of the nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path, PurePosixPath

from railbed.errors import ToolMissing
from railbed.lab.host import HostFault, need_root, run
from railbed.lab.steps import LongSteps
from railbed.lab.vm import cache
from railbed.lab.vm.image import DISK, image_folder
from railbed.lab.vm.recipe import GLIBC, PYTHON, TRAINING, WHEELS, Architecture
from railbed.model import events
from railbed.model.record import Event

LAYER = "training.raw"
NEEDED_MEGABYTES = 3000
"""Disk space that building it takes; a third of it is free again afterwards."""
SPARE_MEGABYTES = 64
PIP_SECONDS = 1800.0
UNUSED = ("torch/include", "torch/share", "torch/test", "torch/bin/*test*", "torch/bin/protoc*")
WARM = '#!/bin/sh\nexec /usr/bin/python3 -SE /usr/lib/railbed/warm.py "$@"\n'
"""Replaces the environment's Python: see `warm.py` on the nodes."""
VENV = "home = /usr/bin\ninclude-system-site-packages = false\n"


def training_key(arch: Architecture) -> str:
    """Return the name of the disk that this recipe builds."""
    text = json.dumps([arch.name, WHEELS, PYTHON, GLIBC, TRAINING, UNUSED, VENV, WARM])
    return hashlib.sha256(text.encode() + Path(__file__).read_bytes()).hexdigest()[:12]


def training_folder(image: Path, key: str) -> Path:
    """Return the folder of an image's training disk, whether it exists or not."""
    return image / cache.TRAINING / key


def need_pip() -> None:
    """Refuse a Python without pip, which downloads the wheels."""
    if importlib.util.find_spec("pip") is None:
        raise ToolMissing(
            "a lab that trains needs pip in railbed's own Python", hint=f"`{sys.executable} -m ensurepip` installs it"
        )


async def make_training(arch: Architecture) -> AsyncGenerator[Event, None]:
    """Build the disk, and yield an event for each step."""
    need_root("building the training disk of a vm lab, which is done once,")
    what = ", ".join(wheel.partition("=")[0] for wheel in WHEELS)
    yield events.LabImage(subject="training", message="is built once")
    image = image_folder(arch)
    with cache.making(training_folder(image, training_key(arch)), (LAYER,)) as new:
        steps, wheels, root = LongSteps("training"), new / "wheels", new / "root"
        yield steps.begin("wheels", f"downloading {what}", usual=60.0)
        await _download(wheels, arch)
        yield steps.end("wheels downloaded")
        yield steps.begin("unpack", "unpacking and compiling", usual=90.0)
        root.mkdir()
        # Extracted so that the Python of the nodes compiles what it will run.
        await run(["debugfs", "-R", f"rdump / {root}", str(image / DISK)], seconds=300)
        environment = root / TRAINING.lstrip("/")
        await asyncio.to_thread(_unpack_all, wheels, environment)
        await _compile(root, arch)
        yield steps.end("unpacked and compiled")
        yield steps.begin("training-disk", "writing the disk", usual=20.0)
        await _make_disk(environment, new / LAYER)
        yield steps.end("disk written")


async def _download(folder: Path, arch: Architecture) -> None:
    """Download the wheels that fit the nodes, with pip's own configuration and cache."""
    versions = [*(f"_2_{minor}" for minor in range(GLIBC, 16, -1)), "2014"]
    platforms = [f"--platform=manylinux{version}_{arch.name}" for version in versions]
    options = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--implementation=cp"]
    options += [f"--python-version={PYTHON}", *platforms]
    try:
        await run(
            [sys.executable, "-P", "-m", "pip", "download", *options, f"--dest={folder}", *WHEELS], seconds=PIP_SECONDS
        )
    except HostFault as error:
        raise HostFault(
            f"the packages for training could not be downloaded: {error.message}",
            hint="PIP_INDEX_URL, PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS choose where pip looks",
        ) from error


async def _compile(root: Path, arch: Architecture) -> None:
    """Compile to byte code, which depends on the version of Python but not on the processor."""
    if arch.is_native:
        compiler = ["chroot", str(root), "python3", "-m", "compileall", "-q", TRAINING]
    elif sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):
        folder = f"{root}{TRAINING}"
        compiler = [sys.executable, "-P", "-m", "compileall", "-q", "-s", str(root), "-p", "/", folder]
    else:
        return
    await run(compiler, seconds=600, check=False)


def _unpack_all(wheels: Path, environment: Path) -> None:
    packages = environment / "lib" / f"python{PYTHON}" / "site-packages"
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            unpack(archive, environment, packages)
        wheel.unlink()
    for path in [path for pattern in UNUSED for path in packages.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (environment / "bin").mkdir(exist_ok=True)
    (environment / f"bin/python{PYTHON}").symlink_to(f"/usr/bin/python{PYTHON}")
    (environment / "bin/python3").write_text(WARM, encoding="utf-8")
    (environment / "bin/python3").chmod(0o755)
    (environment / "pyvenv.cfg").write_text(VENV, encoding="utf-8")


def unpack(archive: zipfile.ZipFile, environment: Path, packages: Path) -> None:
    """Extract the files of a wheel to their places in a virtual environment."""
    homes = {"data": environment, "scripts": environment / "bin", "headers": environment / "include"}
    for entry in archive.infolist():
        path = PurePosixPath(entry.filename)
        home = packages
        if path.parts[0].endswith(".data") and len(path.parts) > 2:
            home, path = homes.get(path.parts[1], packages), PurePosixPath(*path.parts[2:])
        target = home / path
        if entry.is_dir() or ".." in path.parts or path.is_absolute():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        if entry.external_attr >> 16 & 0o111:
            target.chmod(0o755)


async def _make_disk(folder: Path, disk: Path) -> None:
    """Write a disk of the size of its contents."""
    await asyncio.to_thread(_reserve, disk, folder)
    options = ["-q", "-F", "-L", cache.TRAINING, "-m", "0", "-O", "^has_journal", "-E", "nodiscard"]
    await run(["mkfs.ext4", *options, "-d", str(folder), str(disk)], seconds=300)


def _reserve(disk: Path, folder: Path) -> None:
    used = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
    with disk.open("wb") as file:
        os.truncate(file.fileno(), int(used * 1.02) + (SPARE_MEGABYTES << 20))
