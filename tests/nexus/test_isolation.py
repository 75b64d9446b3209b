"""The emulator and the rest of railbed do not import each other."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import SOURCE, statements, trees

EMULATOR = SOURCE / "lab" / "nexus"


pytestmark = pytest.mark.xdist_group("source")


def imports(path: Path) -> Iterator[str]:
    for node in statements(trees()[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_emulator_imports_only_itself_asyncssh_cryptography_and_the_standard_library() -> None:
    foreign = {
        f"{path.name}: {name}"
        for path in EMULATOR.rglob("*.py")
        for name in imports(path)
        if not name.startswith("railbed.lab.nexus")
        and name.split(".")[0] not in ("asyncssh", "cryptography")
        and name.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


def test_railbed_imports_nothing_of_the_emulator() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in trees()
        if not path.is_relative_to(EMULATOR) and any(name.startswith("railbed.lab.nexus") for name in imports(path))
    }
    assert users == set()


def test_imports_inside_the_emulator_point_down() -> None:
    layers = ["model", "cli", "show", "commands", "session", "terminal", "servers", "service", "__main__"]
    wrong = {
        f"{path.relative_to(EMULATOR)} imports {name}"
        for path in EMULATOR.rglob("*.py")
        for name in imports(path)
        if name.startswith("railbed.lab.nexus.")
        and layers.index(name.split(".")[3]) > layers.index(path.relative_to(EMULATOR).parts[0].removesuffix(".py"))
    }
    assert wrong == set()
