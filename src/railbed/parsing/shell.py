"""Words from the cluster file in a shell command: quoted, except for a leading `~`, which the shell expands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

HOME = re.compile(r"~[A-Za-z0-9._-]*(?=/|\Z)")


def quote_path(path: str) -> str:
    """Quote a path or command name so that only a leading `~` or `~user` keeps its meaning."""
    home = HOME.match(path)
    if not home:
        return shlex.quote(path)
    rest = path[home.end() + 1 :]
    return f"{home.group()}/{shlex.quote(rest)}" if rest else home.group()


def quote_words(words: Iterable[str]) -> str:
    """Quote the words of a command, each as a path."""
    return " ".join(map(quote_path, words))


ONLY_INSTALLED = "import sys; sys.path[:] = filter(None, sys.path)"
"""Begins a program for `python_words`: Python before 3.11 looks for modules in the current folder nevertheless."""


def python_words(interpreter: Sequence[str], settings: Mapping[str, str] | None = None) -> str:
    """Return the words that start the Python of the ranks, for code that sees what the ranks see.

    Modules come from its own folders and those of its user alone, not from the current folder or a PYTHONPATH of the
    login: others may write there. `-I` would leave out the user's folder, where torch may be. Settings follow the
    launcher: not every container gets the environment of the machine.
    """
    *launcher, python = interpreter
    variables = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"} | dict(settings or {})
    assigned = [f"{name}={quote_path(value) if value else ''}" for name, value in variables.items()]
    return " ".join([*map(quote_path, launcher), "env", *assigned, quote_path(python)])
