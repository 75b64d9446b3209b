"""railbed as people install it: its wheel in a virtual environment of its own, without anything of this clone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.cli import Result, environment

SECONDS = 600


@dataclass(frozen=True)
class Installed:
    """A virtual environment with railbed."""

    programs: Path

    @property
    def packages(self) -> Path:
        """The folder that its modules are in."""
        (folder,) = self.programs.parent.glob("lib/python*/site-packages")
        return folder

    def run(self, folder: Path, program: str, *arguments: str | Path, **variables: str) -> Result:
        """Run a program of the environment in a folder; Python finds nothing of the tests' own environment."""
        env = environment(**variables)
        for name in [name for name in env if name.startswith(("PYTHON", "VIRTUAL_ENV"))]:
            del env[name]
        words = [str(self.programs / program), *map(str, arguments)]
        done = subprocess.run(
            words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def add_extra(self, extra: str) -> None:
        """Link what an extra of railbed requires from the tests' environment, where pip installed it: nothing else."""
        for distribution in _missing(self.packages, extra):
            _link(distribution, self.packages)


def _missing(packages: Path, extra: str) -> Iterable[Distribution]:
    """Return what an extra requires, directly or not, beyond what is installed."""
    installed = _by_name([str(packages)])
    here = _by_name(sys.path)
    missing: dict[str, Distribution] = {}
    pending = [(installed["railbed"], {extra})]
    while pending:
        distribution, extras = pending.pop()
        for line in distribution.requires or ():
            required = Requirement(line)
            name = canonicalize_name(required.name)
            wanted = not required.marker or any(required.marker.evaluate({"extra": each}) for each in (*extras, ""))
            if wanted and name not in installed and name not in missing:
                missing[name] = here[name]
                pending.append((here[name], set(required.extras)))
    return missing.values()


def _by_name(path: list[str]) -> dict[str, Distribution]:
    return {canonicalize_name(each.metadata["Name"]): each for each in distributions(path=path)}


def _link(distribution: Distribution, packages: Path) -> None:
    """Link the top-level files and folders of a distribution."""
    for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(str(distribution.locate_file(top)))
