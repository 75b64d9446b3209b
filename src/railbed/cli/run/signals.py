"""Ctrl-C, `kill` and a closed terminal, at any moment: they end a verb in order."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from sys import UnraisableHookArgs
    from types import FrameType

T = TypeVar("T")
KILLS = (signal.SIGTERM, signal.SIGHUP)
"""`kill`, and a closed terminal."""
DEFAULTS: dict[signal.Signals, object] = {
    signal.SIGINT: signal.default_int_handler,
    **dict.fromkeys(KILLS, signal.SIG_DFL),
}
"""Signals that end a verb, and how Python handles them at its start unless they are ignored."""
_heard: list[int] = []


class Interrupted(Exception):
    """Ctrl-C, `kill` or a closed terminal ended a verb in order; its notes describe what was saved."""

    def __init__(self, *notes: str) -> None:
        super().__init__("interrupted")
        for note in notes:
            self.add_note(note)


def listen() -> None:
    """Let Ctrl-C, `kill` and a closed terminal raise KeyboardInterrupt, and remember that they did.

    The exception alone can be lost, because Python ignores exceptions in the callbacks of its import system: about one
    in a hundred while modules are loaded.
    """
    for number, default in DEFAULTS.items():
        if signal.getsignal(number) is default:
            signal.signal(number, _note_interrupt)
            sys.unraisablehook = _ignore_warning


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed, or a signal sent, before there was anything to end in order."""
    return bool(_heard)


def run_until_ended(work: Coroutine[Any, Any, T], on_end: Callable[[], None] = lambda: None) -> T:
    """Run a coroutine; Ctrl-C, `kill` and a closed terminal cancel it and then raise KeyboardInterrupt.

    `on_end` is called when that begins: processes on other machines may take a while to end. It runs in a signal
    handler, at any moment.
    """
    import asyncio  # slow to load, and Ctrl-C must work before that

    async def work_that_is_cancelled() -> T:
        task = asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            on_end()
            task.cancel()

        for number in KILLS:
            asyncio.get_running_loop().add_signal_handler(number, cancel)
        _call_before(on_end)
        return await work

    before = {number: signal.getsignal(number) for number in DEFAULTS}
    if before[signal.SIGINT] is _note_interrupt:
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # from here on the event loop handles it, which loses none
    try:
        if was_interrupted():
            work.close()
            raise KeyboardInterrupt
        return asyncio.run(work_that_is_cancelled())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        _restore(before)


def _restore(before: Mapping[signal.Signals, Any]) -> None:
    """Handle signals as before; what the work chose to ignore until the end stays ignored."""
    for number, handler in before.items():
        is_ignored = number in KILLS and signal.getsignal(number) is signal.SIG_IGN
        if handler is not None and not is_ignored:
            signal.signal(number, handler)


@contextmanager
def stop_at_first(stop: asyncio.Event) -> Iterator[None]:
    """Let the first Ctrl-C only set an event, in a coroutine that `run_until_ended` runs; the second ends the verb."""
    import asyncio

    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def handle(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        loop.call_soon_threadsafe(stop.set)

    if callable(before):
        signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)


def _call_before(on_end: Callable[[], None]) -> None:
    """Call `on_end` first when Ctrl-C is pressed; an ignored signal stays ignored."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):

        def handle(number: int, frame: FrameType | None) -> None:
            on_end()
            handler(number, frame)

        signal.signal(signal.SIGINT, handle)


def _note_interrupt(number: int, _frame: object) -> None:
    _heard.append(number)
    raise KeyboardInterrupt


def _ignore_warning(ignored: UnraisableHookArgs) -> None:
    """Print nothing about an ignored interruption: it is remembered."""
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
