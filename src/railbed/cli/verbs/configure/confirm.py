"""Asks the user once, without a thread that Ctrl-C could not end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

ANSWER_SECONDS = 900.0
"""After this time the changes shown may be out of date: no answer means no."""


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
