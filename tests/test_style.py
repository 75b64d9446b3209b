"""The naming rules of CONTRIBUTING ("Plain English"), as far as a program can check them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "railbed"
VAGUE = {"thing", "things", "ones"}
"""Names that say nothing about their content."""


def vague_names(source: str) -> Iterator[str]:
    """Yield `line: name` for every variable, parameter and function with a vague name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case _:
                continue
        if name.strip("_") in VAGUE:
            yield f"{node.lineno}: {name}"


def test_names_are_not_vague() -> None:
    violations = [
        f"{path.relative_to(SOURCE)}:{violation}"
        for path in sorted(SOURCE.rglob("*.py"))
        for violation in vague_names(path.read_text())
    ]
    assert violations == [], "name the content instead; see CONTRIBUTING, Plain English"


@pytest.mark.parametrize(
    "planted",
    [
        "thing = 1",
        "for things in ():\n    pass",
        "def _things():\n    pass",
        "[ones for ones in ()]",
        "lambda thing: 1",
    ],
)
def test_a_planted_vague_name_is_rejected(planted: str) -> None:
    assert list(vague_names(planted))
