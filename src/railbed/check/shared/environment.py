"""The Python environment that nodes train with: created where the cluster file says it is, with what training needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from railbed.model.fix import Fix, Persistence, RunStep, run

REQUIREMENTS = ("numpy>=2.1", "safetensors>=0.5", "tokenizers>=0.21", "torch>=2.9,<2.14")
"""What ranks import: of the extra `train`, all but what only the machine needs that starts them."""
INSTALL_SECONDS = 1800
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
    source = f" --no-index --find-links {shlex.quote(wheels)}" if wheels else ""
    wanted = " ".join(shlex.quote(requirement) for requirement in requirements)
    install = f"{python} -m pip --quiet --no-input install{source} {wanted}"
    removed = [RunStep(command=f"rm -r {folder}", only_if=f"[ -e {folder}/pyvenv.cfg ]")]
    if wheels:
        removed.append(RunStep(command=f"rm -r {shlex.quote(wheels)}", only_if=f"[ -d {shlex.quote(wheels)} ]"))
    return Fix(
        device=node,
        apply=run(f"python3 -m venv {folder}", install),
        undo=tuple(removed),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        condition="" if wheels else f"if {node} reaches a package index; with --wheels DIR it does not need to",
    )
