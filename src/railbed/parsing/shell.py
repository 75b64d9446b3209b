"""Paths from the cluster file in a shell command: quoted, except for a leading `~`, which the shell expands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

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
