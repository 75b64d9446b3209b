"""The Python environment that nodes train with: created where the cluster file says it is, with what training needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from railbed.model.fix import Fix, Persistence, RunStep, run
from railbed.model.requirements import EXTRAS

REQUIREMENTS = EXTRAS["train"]
"""What ranks import: the extra `train`."""
TUNING = EXTRAS["tune"]
"""What ranks import to tune existing models: the extra `tune`."""
INSTALL_SECONDS = 1800
BEFORE = "installed-before-tuning"
"""File in an environment: what was installed there before the libraries for tuning."""
_PYTHON = re.compile(r"(?P<prefix>/[^\s~]*[^/\s~])/bin/python[0-9.]*")


def environment_prefix(python: str) -> str | None:
    """Return the folder of the environment that a Python is in; None if its path does not show it.

    Only absolute paths do: changes are made by root, whose home folder is another.
    """
    match = _PYTHON.fullmatch(python)
    return match["prefix"] if match and not match["prefix"].startswith(("/usr", "/bin")) else None


def create_environment(node: str, prefix: str, *, wheels: str = "", requirements: Sequence[str] = REQUIREMENTS) -> Fix:
    """Create an environment with the requirements: from a package index, or from a folder of wheels on the node."""
    folder, python = shlex.quote(prefix), shlex.quote(f"{prefix}/bin/python")
    removed = RunStep(command=f"rm -r {folder}", only_if=f"[ -e {folder}/pyvenv.cfg ]")
    return Fix(
        device=node,
        apply=run(f"python3 -I -m venv {folder}", _install(python, wheels, requirements)),
        undo=(removed, *_removed_wheels(wheels)),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        condition=_condition(node, wheels),
    )


def add_libraries(node: str, prefix: str, *, wheels: str = "", after: tuple[str, ...] = ()) -> Fix:
    """Add the libraries for tuning to an environment, without changing what is in it; the undo removes what is new."""
    python, before = shlex.quote(f"{prefix}/bin/python"), shlex.quote(f"{prefix}/{BEFORE}")
    listed = f"{python} -I -m pip list --format=freeze | LC_ALL=C sort"
    added = f"{listed} | LC_ALL=C comm -13 {before} - | cut -d= -f1"
    remove = f"{added} | xargs -r {python} -I -m pip --quiet --no-input uninstall -y && rm {before}"
    return Fix(
        device=node,
        apply=run(f"{listed} >{before}", _install(python, wheels, TUNING, options=f" --constraint {before}")),
        undo=(RunStep(command=remove, only_if=f"[ -e {before} ]"), *_removed_wheels(wheels)),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        after=after,
        condition=_condition(node, wheels),
    )


def _install(python: str, wheels: str, requirements: Sequence[str], *, options: str = "") -> str:
    source = f" --no-index --find-links {shlex.quote(wheels)}" if wheels else ""
    wanted = " ".join(shlex.quote(requirement) for requirement in requirements)
    return f"{python} -I -m pip --quiet --no-input install{source}{options} {wanted}"


def _removed_wheels(wheels: str) -> tuple[RunStep, ...]:
    folder = shlex.quote(wheels)
    return (RunStep(command=f"rm -r {folder}", only_if=f"[ -d {folder} ]"),) if wheels else ()


def _condition(node: str, wheels: str) -> str:
    return "" if wheels else f"if {node} reaches a package index; with --wheels DIR it does not need to"
