"""Asynchronous generators for code that is not asynchronous, even where an event loop runs, as in a notebook."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def iterate(make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
    """Yield what an asynchronous generator yields; an event loop in a thread of its own runs it.

    The generator continues when the next value is asked for. A caller that stops asking, or is interrupted, cancels it
    and waits until it has ended in order.
    """
    thread = _GeneratorThread(make)
    atexit.register(thread.close)
    try:
        while (item := thread.next()) is not None:
            yield item[0]
    finally:
        thread.close()
        atexit.unregister(thread.close)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, and return its result."""

    async def result() -> AsyncGenerator[T, None]:
        yield await work

    (value,) = iterate(result)
    return value


class _GeneratorThread(Generic[T]):
    """A thread that runs a generator, one value for each that is asked for."""

    def __init__(self, make: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._make = make
        self._items: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
        self._started: SimpleQueue[None] = SimpleQueue()
        self._is_over = False
        context = contextvars.copy_context()
        # A daemon: Python waits for other threads before it calls `close` at its exit.
        self._thread = Thread(target=context.run, args=(self._run,), name="railbed", daemon=True)
        self._thread.start()
        self._started.get()

    def next(self) -> tuple[T] | None:
        """Return the next value, or None after the last one; raise the error that ended the generator."""
        self._loop.call_soon_threadsafe(self._wanted.set)
        item = self._items.get()
        if isinstance(item, BaseException):
            self._is_over = True
            raise item
        self._is_over = item is None
        return item

    def close(self) -> None:
        """Cancel the generator unless it has ended, and raise an error that occurs as it ends."""
        if not self._is_over:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        while not self._is_over:
            item = self._items.get()
            self._is_over = not isinstance(item, tuple)
            if isinstance(item, BaseException) and not isinstance(item, asyncio.CancelledError):
                raise item

    def _run(self) -> None:
        try:
            asyncio.run(self._yield_values())
        except BaseException as error:
            self._items.put(error)
        else:
            self._items.put(None)

    async def _yield_values(self) -> None:
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._wanted = asyncio.Event()
        self._started.put(None)
        async with aclosing(self._make()) as values:
            await self._wanted.wait()
            async for value in values:
                self._wanted.clear()
                self._items.put((value,))
                await self._wanted.wait()
