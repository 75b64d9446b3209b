"""The naming rules of CONTRIBUTING ("Plain English"), as far as a program can check them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import ROOT, SOURCE, trees

pytestmark = pytest.mark.xdist_group("source")
VAGUE = {
    "told",
    "one",
    "ones",
    "found",
    "said",
    "thing",
    "things",
    "whole",
    "given",
    "kept",
    "seen",
    "asked",
    "tell",
    "say",
}
"""Names that say nothing about their content."""
REMAINING: dict[str, int] = {}
"""Vague names that a package still has. Lower a number when you rename some; never raise one."""


def vague_names(tree: ast.AST) -> Iterator[str]:
    """Yield every variable, parameter and function with a vague name, as `line: name`."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case _:
                continue
        if name.strip("_") in VAGUE:
            yield f"{node.lineno}: {name}"


def package_of(path: Path) -> str:
    """Return the package below railbed that a file belongs to, or its top folder outside of it."""
    return path.relative_to(SOURCE if SOURCE in path.parents else ROOT).parts[0].removesuffix(".py")


def test_names_are_not_vague() -> None:
    violations: dict[str, list[str]] = {}
    tools = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "tools").glob("*.py"))}
    for path, tree in {**trees(), **tools}.items():
        names = [f"{path.relative_to(ROOT)}:{name}" for name in vague_names(tree)]
        violations.setdefault(package_of(path), []).extend(names)
    excessive = {package: names for package, names in violations.items() if len(names) > REMAINING.get(package, 0)}
    assert excessive == {}, "name the content instead; see CONTRIBUTING, Plain English"


@pytest.mark.parametrize(
    "planted",
    ["told = 1", "for one in ():\n    pass", "def _told():\n    pass", "[one for one in ()]", "lambda thing: 1"],
)
def test_a_planted_vague_name_is_rejected(planted: str) -> None:
    assert list(vague_names(ast.parse(planted)))
