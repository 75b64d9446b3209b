"""The verbs and their one-line descriptions, read from source: importing all of them takes a second."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path


def summary_of(verb: str, module: str) -> str:
    """Return the first paragraph of a verb's `--help`: a docstring, or the `help` of a group of commands."""
    path = Path(__file__).parent.joinpath("verbs", *module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_bytes())
    name = f"{verb}_command"
    for node in tree.body:
        match node:
            case ast.FunctionDef() if node.name == name:
                return (ast.get_docstring(node) or "").partition("\n\n")[0]
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(keywords=keywords)) if target == name:
                return str(next(ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg == "help"))
    raise LookupError(name)


def stand_in(verb: str, module: str) -> Callable[[], None]:
    """Return a placeholder that is listed like the verb and never called."""

    def command() -> None:
        raise AssertionError(f"{verb} was not loaded")

    command.__doc__ = summary_of(verb, module)
    return command
