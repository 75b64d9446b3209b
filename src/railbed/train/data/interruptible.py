"""Runs work that computes outside Python, such as training a tokenizer, so that Ctrl-C and `kill` end it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from railbed.train.data.report import Report

T = TypeVar("T")
POLL_SECONDS, GRACE_SECONDS = 0.2, 1.0
"""How often signals are handled, and how long work that was given up may take to stop writing files."""


class _GivenUp(BaseException):
    """Raised in the thread once nobody waits for its result."""


def run_interruptibly(work: Callable[[Report], T], report: Report) -> T:
    """Return the result of work that is given a function to report to; raise what it raises.

    Python handles signals in its main thread only, and only between two of its own instructions: the work has a thread
    of its own, which ends with the process if the caller is interrupted.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    given_up = threading.Event()

    def checked_report(what: str, done: int, total: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        report(what, done, total)

    def run() -> None:
        try:
            results.append(work(checked_report))
        except BaseException as error:  # raised again where somebody waits
            errors.append(error)

    thread = threading.Thread(target=run, name="interruptible", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
    except BaseException:
        given_up.set()
        if thread.is_alive():
            thread.join(GRACE_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]
