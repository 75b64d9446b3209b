"""switchlab imports nothing of railbed, and railbed only the public interface of switchlab."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import SWITCHLAB, statements, trees

LAYERS = {
    "nexus": ["model", "cli", "show", "commands", "session", "terminal", "servers", "service", "__main__"],
    "esxi": ["model", "formats", "commands", "shell", "servers", "service", "__main__"],
}

pytestmark = pytest.mark.xdist_group("source")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_switchlab_imports_only_itself_asyncssh_cryptography_and_the_standard_library() -> None:
    allowed = {"switchlab", "asyncssh", "cryptography", *sys.stdlib_module_names}
    foreign = {
        f"{path.name}: {name}"
        for path, tree in trees(SWITCHLAB).items()
        for name in imports(tree)
        if name.split(".")[0] not in allowed
    }
    assert foreign == set()


def test_railbed_imports_only_the_public_interface() -> None:
    private = {name for tree in trees().values() for name in imports(tree) if name.startswith("switchlab.")}
    assert private == set()


@pytest.mark.parametrize("device", LAYERS)
def test_imports_inside_a_device_point_down(device: str) -> None:
    layers = LAYERS[device]

    def layer(path: Path) -> int:
        return layers.index(path.relative_to(SWITCHLAB / device).parts[0].removesuffix(".py"))

    wrong = {
        f"{path.relative_to(SWITCHLAB)} imports {name}"
        for path, tree in trees(SWITCHLAB).items()
        if path.is_relative_to(SWITCHLAB / device)
        for name in imports(tree)
        if name.startswith(f"switchlab.{device}.") and layers.index(name.split(".")[2]) > layer(path)
    }
    assert wrong == set()


@pytest.mark.parametrize("device", [*LAYERS, "common"])
def test_devices_import_nothing_of_each_other(device: str) -> None:
    others = tuple(f"switchlab.{other}." for other in LAYERS if other != device)
    foreign = {
        f"{path.relative_to(SWITCHLAB)} imports {name}"
        for path, tree in trees(SWITCHLAB).items()
        if path.is_relative_to(SWITCHLAB / device)
        for name in imports(tree)
        if name.startswith(others)
    }
    assert foreign == set()
