"""What a user chooses: a run by its name, which is printed if it was `newest`, and the answer to a question.

Asks without a thread that Ctrl-C could not end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from railbed.errors import UsageError
from railbed.store import ANY_RUN, NEWEST, RunKind, find_run

ANSWER_SECONDS = 900.0
"""After this time the changes shown may be out of date: no answer means no."""


def chosen_run(name: str | None, kind: RunKind = ANY_RUN, otherwise: RunKind | None = None) -> Path:
    """Return the folder of the run that a user names; for `newest`, print which run that is.

    If there is no run of this kind, `newest` is the newest of the other kind.
    """
    try:
        folder = find_run(name, kind)
    except UsageError:
        if name != NEWEST or otherwise is None:
            raise
        return chosen_run(name, otherwise)
    if name == NEWEST:
        sys.stderr.write(f"newest {kind.noun}: {folder.name}\n")
    return folder


def require_terminal(*, json: bool) -> None:
    """Raise UsageError if nobody can be asked before devices are changed."""
    if json or not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", hint="give --yes to make the changes without asking")


async def ask(question: str, before: Callable[[], None]) -> bool:
    """Ask on the terminal and return whether the answer is yes; `before` clears the progress line first."""
    before()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), readable.set)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await readable.wait()
    except TimeoutError:
        sys.stderr.write(f"\nno answer within {ANSWER_SECONDS / 60:.0f} minutes\n")
        return False
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline().strip().lower() in ("y", "yes")
