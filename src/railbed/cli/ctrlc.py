"""Ctrl-C, `kill` and a closed terminal, heard at any moment: they end in order what was begun."""

from __future__ import annotations

import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

T = TypeVar("T")
_heard: list[int] = []


def listen() -> None:
    """Keep in mind that Ctrl-C was pressed.

    Its exception alone is lost where Python ignores those, as in the callbacks of its import system: while modules are
    loaded, that is one of a hundred.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _hear)
        sys.unraisablehook = _tell_ignored


def was_heard() -> bool:
    """Whether Ctrl-C was pressed before there was anything to end in order."""
    return bool(_heard)


def run_until_ended(work: Coroutine[Any, Any, T]) -> T:
    """Run something to its end; Ctrl-C, `kill` and a closed terminal cancel it, and are a KeyboardInterrupt then."""
    import asyncio  # takes longer to load than all of this, and Ctrl-C is to be heard before

    async def work_that_is_cancelled() -> T:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work

    before = signal.getsignal(signal.SIGINT)
    if before is _hear:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on it is the loop's, which loses none
    try:
        if was_heard():
            work.close()
            raise KeyboardInterrupt
        return asyncio.run(work_that_is_cancelled())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        if before is _hear:
            signal.signal(signal.SIGINT, _hear)


def _hear(number: int, _frame: object) -> None:
    _heard.append(number)
    raise KeyboardInterrupt


def _tell_ignored(ignored: UnraisableHookArgs) -> None:
    """Say nothing of a Ctrl-C that was ignored: it is kept in mind."""
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
