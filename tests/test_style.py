"""The naming rules of CONTRIBUTING ("Plain English"), as far as a program can check them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import ROOT, SOURCE, SWITCHLAB, trees

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


def vague_names(tree: ast.AST) -> Iterator[str]:
    """Yield every variable, attribute, parameter and function with a vague name, as `line: name`."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case _:
                continue
        if name.strip("_") in VAGUE:
            yield f"{node.lineno}: {name}"


def test_names_are_not_vague() -> None:
    others = [path for folder in ("tests", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]
    parsed = {**trees(), **trees(SWITCHLAB), **{path: ast.parse(path.read_text()) for path in others}}
    violations = [f"{path.relative_to(ROOT)}:{name}" for path, tree in parsed.items() for name in vague_names(tree)]
    assert violations == [], "name the content instead; see CONTRIBUTING, Plain English"


@pytest.mark.parametrize(
    "planted",
    [
        "told = 1",
        "for one in ():\n    pass",
        "def _told():\n    pass",
        "[one for one in ()]",
        "lambda thing: 1",
        "a.told = 1",
    ],
)
def test_a_planted_vague_name_is_rejected(planted: str) -> None:
    assert list(vague_names(ast.parse(planted)))


def repeated_class_names(package: Path) -> set[str]:
    """Return the public class names of a package that several of its modules define."""
    names = [node.name for tree in trees(package).values() for node in tree.body if isinstance(node, ast.ClassDef)]
    return {name for name, count in Counter(names).items() if count > 1 and not name.startswith("_")}


def test_a_public_class_name_exists_once() -> None:
    assert repeated_class_names(SOURCE) == set(), "name the class for what sets it apart"
    assert repeated_class_names(SWITCHLAB) == set()
