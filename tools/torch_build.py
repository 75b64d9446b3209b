"""Prints what pip is to install for torch: the index's builds as locked, or a build from a local folder of wheels.

Builds of torch differ by accelerator, and a build for processors alone is not on PyPI. If pip is configured to look
into a local folder (`find-links`) that has the locked version, its SHA-256 is added to those that are admitted,
provided that only root or this user could have put the file there. Nothing else is exempt from the lock files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tools import lockfile
from tools.lockfile import Package, Wheel

NONE = "No matching distribution found"


class Refused(Exception):
    """The local build of torch cannot be trusted, or pip cannot look for it."""


@dataclass(frozen=True)
class Build:
    """A wheel in a local folder."""

    path: Path
    version: str
    requires: frozenset[str]


def choose(locked: Sequence[Package]) -> tuple[str, Sequence[Package]]:
    """Return what to say about torch, and what to install: nothing if the locked version is installed already."""
    torch = next(package for package in locked if package.name == "torch")
    if (installed := _installed_version()).partition("+")[0] == torch.version:
        return f"torch {installed} is installed already", ()
    build = find_build(torch.version)
    if build is None:
        return f"torch {torch.version} comes from the package index, with its libraries for GPUs", locked
    sha256 = _sha256(build.path)
    if sha256 not in {wheel.sha256 for wheel in torch.wheels}:
        for reason in obstacles(build.path):
            raise Refused(f"torch {build.version} in {build.path} cannot be trusted: {reason}")
    own = replace(torch, version=build.version, wheels=(Wheel(build.path.name, sha256),))
    others = [package for package in locked if package is not torch]
    needs_others = not build.requires.isdisjoint(package.name for package in others)
    return f"torch {build.version} comes from {build.path} (SHA-256 {sha256})", [own, *(others if needs_others else ())]


def find_build(wanted: str) -> Build | None:
    """Return the wheel that pip would take from the local folders it is configured to look into."""
    options = ["--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--no-index", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "install", *options, "--report", "-", f"torch=={wanted}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and NONE in done.stderr:
        return None
    if done.returncode:
        raise Refused(f"pip cannot look for a local build of torch: {done.stderr.strip()}")
    (entry,) = json.loads(done.stdout)["install"]
    url = urlsplit(entry["download_info"]["url"])
    return Build(Path(unquote(url.path)), *_about(entry["metadata"])) if url.scheme == "file" else None


def obstacles(path: Path) -> Iterator[str]:
    """Yield the reasons why others than root and this user could have put a file where it is."""
    real = path.resolve()
    for part in (real, *real.parents):
        about = part.stat()
        writable = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        is_shared = part not in (real, real.parent) and about.st_mode & stat.S_ISVTX
        if about.st_uid not in (0, os.geteuid()):
            yield f"{part} belongs to another account (number {about.st_uid})"
        elif writable and not is_shared:
            yield f"others can write to {part} (`chmod go-w {part}` prevents it)"


def _about(metadata: dict[str, Any]) -> tuple[str, frozenset[str]]:
    names = (re.match(r"[\w.-]+", line) for line in metadata.get("requires_dist", ()))
    return metadata["version"], frozenset(name[0].lower().replace("_", "-") for name in names if name)


def _installed_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    """Print the requirements for pip, and a line about them for people."""
    try:
        sentence, packages = choose(lockfile.read(lockfile.path_of("torch")))
    except (Refused, lockfile.Unreadable) as error:
        print(error, file=sys.stderr)
        return 1
    print(sentence, file=sys.stderr)
    print("".join(map(str, packages)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
