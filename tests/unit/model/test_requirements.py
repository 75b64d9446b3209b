"""Commands that install what is missing name the packages of others, never railbed: anybody could register that."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from railbed.model.requirements import EXTRAS, install_extra, install_package, is_in_an_extra

ROOT = Path(__file__).parents[3]
TEXTS = ("*.md", "docs/**/*.md", "docs/**/*.svg", "docs/recordings/**/*", "examples/**/*", "src/**/*", "tools/**/*")
FROM_AN_INDEX = re.compile(
    r"""(?:\binstall\b[^\n]*?[\s'"(]|\s['"]|^)railbed(?:\[\w|[=<>~]=)|\binstall\s+['"]?railbed\b(?!-\d)"""
)


def commands(text: str) -> list[str]:
    """Return the lines of a text that would install railbed by its name."""
    return [line for line in text.splitlines() if FROM_AN_INDEX.search(line)]


def test_nothing_installs_railbed_from_a_package_index() -> None:
    paths = {path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file() and path.suffix != ".pyc"}
    assert len(paths) > 500
    texts = {str(path): path.read_bytes().decode("utf-8", "replace") for path in paths}
    assert {path: lines for path, text in texts.items() if (lines := commands(text))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "pip install railbed",
        "`pip install 'railbed[train]'` installs it",
        'pip install --upgrade "railbed[tune]"',
        "python -m pip install numpy railbed==0.2.0",
        "hint=f\"{python} -m pip install 'railbed[capture]'\"",
    ],
)
def test_such_a_command_is_recognised(line: str) -> None:
    assert commands(line) == [line]


def test_the_wheel_at_hand_may_be_installed() -> None:
    assert commands("pip install ./railbed-0.2.0-py3-none-any.whl\npip install './railbed-0.2.0.whl[train]'") == []


def test_the_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {
        extra: tuple(sorted(line.partition(";")[0] for line in lines))
        for extra, lines in project["optional-dependencies"].items()
    }
    assert required == {extra: tuple(sorted(lines)) for extra, lines in EXTRAS.items()}


def test_a_command_installs_for_this_python() -> None:
    pip = f"{sys.executable} -P -m pip install"
    assert install_package("torch") == f"{pip} 'torch>=2.9,<2.14'"
    assert install_extra("mpi") == f"{pip} 'mpi4py>=4.1' 'mpich>=5.0'"
    assert is_in_an_extra("numba")
    assert not is_in_an_extra("railbed")
