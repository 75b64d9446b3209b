"""Ctrl-C, `kill` and a closed terminal, heard at any moment: they end in order what was begun."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

T = TypeVar("T")
_heard: list[int] = []


class Interrupted(Exception):
    """Ctrl-C, `kill` or a closed terminal ended a verb in order; its notes say what is left of it."""

    def __init__(self, *notes: str) -> None:
        super().__init__("interrupted")
        for note in notes:
            self.add_note(note)


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


def run_until_ended(work: Coroutine[Any, Any, T], on_end: Callable[[], None] = lambda: None) -> T:
    """Run something to its end; Ctrl-C, `kill` and a closed terminal cancel it, and are a KeyboardInterrupt then.

    `on_end` is called when that begins: what was started on other machines may take a while to end. It runs in a signal
    handler, at any moment.
    """
    import asyncio  # takes longer to load than all of this, and Ctrl-C is to be heard before

    async def work_that_is_cancelled() -> T:
        task = asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            on_end()
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, cancel)
        _call_before(on_end)
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
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _call_before(on_end: Callable[[], None]) -> None:
    """Have something done first when Ctrl-C is pressed; who is deaf to it stays so."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):

        def handle(number: int, frame: FrameType | None) -> None:
            on_end()
            handler(number, frame)

        signal.signal(signal.SIGINT, handle)


def _hear(number: int, _frame: object) -> None:
    _heard.append(number)
    raise KeyboardInterrupt


def _tell_ignored(ignored: UnraisableHookArgs) -> None:
    """Say nothing of a Ctrl-C that was ignored: it is kept in mind."""
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
