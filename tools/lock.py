"""Writes the lock files: `make lock` resolves what pyproject.toml asks for, for each processor and Python.

It takes the newest versions that pyproject.toml admits; `python -m tools.lock --keep` leaves those that are locked
already, as after adding a package. Nothing is installed, and hardly anything downloaded: uv reads the wheels' metadata.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.markers import Marker, default_environment
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from tools import lockfile
from tools.lockfile import Package, Wheel

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROCESSORS = ("x86_64", "aarch64")
PATCHES = (0, 99)
"""Some packages are only needed by early releases of a version of Python, or only by later ones."""
NEWEST_GLIBC = 40
ORDER = ("build", "railbed", "train", "torch", "dev", "bench", "soak", "lock")
"""Each file lists what those before it do not …"""
COMPLETE = ("build", "railbed")
"""… but these, which are also installed alone."""
GPU = ("cuda-", "nvidia-", "triton")
"""What only the index's builds of torch require: the beginnings of names."""


class Unresolvable(Exception):
    """uv cannot find versions that go together."""


@dataclass(frozen=True)
class Target:
    """A kind of machine that railbed is installed on."""

    python: str
    processor: str

    def needs(self, package: Package) -> bool:
        """Return whether the marker of a package holds here."""
        return not package.marker or any(Marker(package.marker).evaluate(self._environment(patch)) for patch in PATCHES)

    def runs(self, wheel: Wheel, glibc: int = NEWEST_GLIBC) -> bool:
        """Return whether a wheel can be installed here."""
        return not parse_wheel_filename(wheel.file)[-1].isdisjoint(self._tags(glibc))

    def _environment(self, patch: int) -> dict[str, str]:
        release = f"{self.python}.{patch}"
        return {key: str(value) for key, value in default_environment().items()} | {
            "implementation_name": "cpython",
            "implementation_version": release,
            "os_name": "posix",
            "platform_machine": self.processor,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": release,
            "python_version": self.python,
            "sys_platform": "linux",
        }

    def _tags(self, glibc: int) -> set[Tag]:
        version = tuple(map(int, self.python.split(".")))
        interpreter = f"cp{self.python.replace('.', '')}"
        names = [*(f"manylinux_2_{minor}" for minor in range(glibc, 4, -1)), "manylinux2014", "manylinux2010"]
        platforms = [f"{name}_{self.processor}" for name in (*names, "manylinux1", "linux")]
        return {
            *cpython_tags(version, [interpreter], platforms),
            *compatible_tags(version, interpreter, platforms),
        }


TARGETS = tuple(Target(python, processor) for python, processor in product(PYTHONS, PROCESSORS))


def read_requirements(project: Mapping[str, object]) -> dict[str, list[str]]:
    """Return what pyproject.toml asks for, by lock file."""
    match project:
        case {
            "build-system": {"requires": list(build)},
            "project": {"dependencies": list(own), "optional-dependencies": dict(extras)},
            "dependency-groups": {"dev": list(dev), "bench": list(bench), "soak": list(soak), "lock": list(lock)},
        }:
            every = [requirement for extra in extras.values() for requirement in extra]
            train = own + extras["train"]
            return {
                "build": build,
                "railbed": own,
                "train": train,
                "torch": train,
                "dev": own + every + dev,
                "bench": bench,
                "soak": soak,
                "lock": lock,
            }
    raise Unresolvable("pyproject.toml lacks a table with requirements")


class Resolver:
    """uv, in a folder with a project of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pins(self, requirements: Sequence[str], preferred: Iterable[Package]) -> str:
        """Return a version of everything that goes together; preferred ones where they do."""
        output = self._folder / "pins.txt"
        output.write_text("".join(f"{package.name}=={package.version}\n" for package in preferred))
        self._compile(requirements, output)
        return output.read_text()

    def packages(self, requirements: Sequence[str], pins: str) -> list[Package]:
        """Return requirements and what they require in turn, in the pinned versions."""
        constraints, output = self._folder / "constraints.txt", self._folder / "pylock.toml"
        constraints.write_text(pins)
        output.unlink(missing_ok=True)
        self._compile(requirements, output, "--constraints", str(constraints), "--generate-hashes")
        locked = tomllib.loads(output.read_text())["packages"]
        return [package for package in map(_package, locked) if package.wheels]

    def _compile(self, requirements: Sequence[str], output: Path, *options: str) -> None:
        project = self._folder / "pyproject.toml"
        project.write_text(
            f'[project]\nname = "locked"\nversion = "0"\nrequires-python = ">={PYTHONS[0]}"\n'
            f"dependencies = {json.dumps(requirements)}\n[tool.uv]\nenvironments = {json.dumps(_environments())}\n"
        )
        command = [str(Path(sys.executable).with_name("uv")), "pip", "compile", project.name, "--quiet", "--universal"]
        command += ["--python-version", PYTHONS[0], "--no-build", "--no-header", "--no-annotate", *options]
        done = subprocess.run(
            [*command, "--output-file", output.name], cwd=self._folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Unresolvable(done.stderr.strip())


def split(resolved: Mapping[str, Sequence[Package]]) -> dict[str, list[Package]]:
    """Return the content of each file: what those before it do not list, and what only GPUs need in `torch`."""
    files: dict[str, list[Package]] = {}
    listed: dict[tuple[str, str], set[Target]] = {}
    for name in ORDER:
        new = [package for package in resolved[name] if name != "train" or not _is_for_gpus(package)]
        files[name] = []
        for package in new:
            targets = {target for target in TARGETS if target.needs(package)}
            before = listed.setdefault((package.name, package.version), set())
            if name in COMPLETE or not targets <= before:
                files[name].append(package)
                before |= targets
    return files


def lock(folder: Path, project: Path, *, keep: bool) -> None:
    """Write the lock files into a folder."""
    requirements = read_requirements(tomllib.loads(project.read_text(encoding="utf-8")))
    preferred = [package for path in folder.glob("*.txt") for package in lockfile.read(path)] if keep else []
    with tempfile.TemporaryDirectory() as temporary:
        resolver = Resolver(Path(temporary))
        pins = resolver.pins(sorted({line for lines in requirements.values() for line in lines}), preferred)
        resolved = {name: resolver.packages(lines, pins) for name, lines in requirements.items()}
    folder.mkdir(exist_ok=True)
    for name, packages in split(resolved).items():
        lockfile.write(folder / f"{name}.txt", packages)
        print(f"{name}.txt: {len(packages)} packages")


def _environments() -> list[str]:
    oldest, newest = PYTHONS[0], PYTHONS[-1]
    common = "sys_platform == 'linux' and platform_python_implementation == 'CPython'"
    pythons = f"python_version >= '{oldest}' and python_version <= '{newest}'"
    return [f"{common} and {pythons} and platform_machine == '{name}'" for name in PROCESSORS]


def _is_for_gpus(package: Package) -> bool:
    return package.name == "torch" or package.name.startswith(GPU)


def _package(entry: Mapping[str, object]) -> Package:
    """Read a package from uv's output, with the wheels that railbed's machines can use; none if it is not for them."""
    match entry:
        case {"name": str(name), "version": str(version)}:
            package = Package(name, version, str(entry.get("marker", "")), ())
    targets = [target for target in TARGETS if target.needs(package)]
    listed = entry.get("wheels")
    wheels = [_wheel(wheel) for wheel in listed] if isinstance(listed, list) else []
    usable = sorted(
        (wheel for wheel in wheels if any(target.runs(wheel) for target in targets)), key=lambda wheel: wheel.file
    )
    return Package(name, version, _marker(package, targets), tuple(usable))


def _marker(package: Package, targets: Sequence[Target]) -> str:
    """Return a marker that selects the same targets, in fewer words than uv's if it is about Python's version."""
    pythons = sorted({target.python for target in targets}, key=PYTHONS.index)
    if len(targets) == len(TARGETS):
        return ""
    if len(targets) < len(pythons) * len(PROCESSORS):
        return package.marker
    if len(pythons) == 1:
        return f"python_version == '{pythons[0]}'"
    if tuple(pythons) == PYTHONS[-len(pythons) :]:
        return f"python_version >= '{pythons[0]}'"
    if tuple(pythons) == PYTHONS[: len(pythons)]:
        return f"python_version <= '{pythons[-1]}'"
    return package.marker


def _wheel(entry: Mapping[str, object]) -> Wheel:
    match entry:
        case {"url": str(url), "hashes": {"sha256": str(sha256)}}:
            return Wheel(unquote(urlsplit(url).path.rpartition("/")[2]), sha256)
    raise Unresolvable(f"uv lists a wheel without its SHA-256: {entry}")


def main() -> int:
    """Lock everything, and print how much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave locked versions that still fit")
    try:
        lock(lockfile.FOLDER, ROOT / "pyproject.toml", keep=parser.parse_args().keep)
    except Unresolvable as error:
        print(f"nothing was locked: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
