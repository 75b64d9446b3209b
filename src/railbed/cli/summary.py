"""The list of verbs without the verbs: what each does, read from its source, since loading all takes a second."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path


def summary_of(verb: str) -> str:
    """Return the first paragraph of what `--help` says of a verb: a docstring, or the `help` of a group of commands."""
    tree = ast.parse(Path(__file__).with_name(f"{verb}.py").read_bytes())
    name = f"{verb}_command"
    for node in tree.body:
        match node:
            case ast.FunctionDef() if node.name == name:
                return (ast.get_docstring(node) or "").partition("\n\n")[0]
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(keywords=keywords)) if target == name:
                return str(next(ast.literal_eval(keyword.value) for keyword in keywords if keyword.arg == "help"))
    raise LookupError(name)


def stand_in(verb: str) -> Callable[[], None]:
    """Return a command that is listed like the verb, and never called."""

    def command() -> None:
        raise AssertionError(f"{verb} was not loaded")

    command.__doc__ = summary_of(verb)
    return command
