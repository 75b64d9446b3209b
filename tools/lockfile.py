"""The lock files in `requirements/`: each wheel that `make` may install, with its SHA-256.

pip reads them as they are (`--require-hashes`). `tools/lock.py` writes them. Only the standard library is used here,
since `make setup` reads them while nothing else is installed yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "requirements"
HEAD = "# Made by `make lock` from pyproject.toml. Above each package are its wheels, in the order of their SHA-256.\n"
_PACKAGE = re.compile(
    r"(?P<files>(?:^# \S+\.whl\n)+)^(?P<name>[\w.-]+)==(?P<version>[\w.+!]+)(?: ; (?P<marker>[^\\\n]+?))?"
    r"(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n",
    re.MULTILINE,
)


class Unreadable(Exception):
    """A lock file has other lines than `tools/lock.py` writes."""


@dataclass(frozen=True)
class Wheel:
    """A file of a package, and what it must contain."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """A package in exactly one version, for all environments or those that the marker describes."""

    name: str
    version: str
    marker: str
    wheels: tuple[Wheel, ...]

    def __str__(self) -> str:
        files = "".join(f"# {wheel.file}\n" for wheel in self.wheels)
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" \\\n    --hash=sha256:{wheel.sha256}" for wheel in self.wheels)
        return f"{files}{self.name}=={self.version}{marker}{hashes}\n"


def path_of(name: str) -> Path:
    """Return the lock file of that name."""
    return FOLDER / f"{name}.txt"


def read(path: Path) -> Sequence[Package]:
    """Return the packages of a lock file; raise Unreadable if it has anything else."""
    text = path.read_text(encoding="utf-8").removeprefix(HEAD)
    packages = [_package(match) for match in _PACKAGE.finditer(text)]
    if "".join(map(str, packages)) != text:
        raise Unreadable(f"{path} has lines that `make lock` did not write")
    return packages


def write(path: Path, packages: Iterable[Package]) -> None:
    """Write a lock file."""
    path.write_text(HEAD + "".join(map(str, packages)), encoding="utf-8")


def _package(match: re.Match[str]) -> Package:
    files = re.findall(r"^# (\S+)$", match["files"], re.MULTILINE)
    hashes = re.findall(r"sha256:(\w+)", match["hashes"])
    if len(files) != len(hashes):
        raise Unreadable(f"{match['name']}=={match['version']} has {len(files)} files and {len(hashes)} hashes")
    wheels = tuple(Wheel(file, sha256) for file, sha256 in zip(files, hashes, strict=True))
    return Package(match["name"], match["version"], match["marker"] or "", wheels)
