"""The texts below the attributes of a class, read from its source by whoever shows them."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from typing import Any


def attribute_texts(kind: type[Any]) -> dict[str, str]:
    """Return the text below each annotated attribute, those of base classes of this project included."""
    texts: dict[str, str] = {}
    for part in reversed([base for base in kind.__mro__ if base.__module__.startswith("railbed.")]):
        body = ast.parse(dedent(inspect.getsource(part))).body[0]
        assert isinstance(body, ast.ClassDef)
        for key, text in zip(body.body, body.body[1:], strict=False):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    texts[name] = " ".join(words.split())
    return texts
