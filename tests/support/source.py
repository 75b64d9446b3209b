"""The source as syntax trees, parsed once for all tests that look at it: they are in the group `source`."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "railbed"
SWITCHLAB = ROOT / "src" / "switchlab"
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


@cache
def trees(package: Path = SOURCE) -> dict[Path, ast.Module]:
    """Return the syntax tree of every file of a package.

    The garbage collector would go through all of them again and again, now and in every later test.
    """
    gc.disable()
    try:
        parsed = {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
        gc.freeze()
    finally:
        gc.enable()
    return parsed


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement, at any depth: a tenth of the nodes that `ast.walk` yields."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        for name in BODIES:
            children = getattr(node, name, ())
            if isinstance(children, list):  # a lambda has one expression as its body
                pending += children
