"""A verb that was called: its records, one after another, with or without `async`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from railbed.api.reach import Reach
from railbed.api.running import Invocation, Work, start_verb
from railbed.api.stored import Run
from railbed.api.thread import iterate
from railbed.errors import UsageError
from railbed.model.record import Event, Record
from railbed.store import Store, summary_of

R = TypeVar("R", bound=Record)
T = TypeVar("T")


class CalledVerb(ABC, Generic[R, T]):
    """A verb that yields records once, with or without `async`, and that amounts to something: a run, or a list."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._records: AsyncGenerator[R, None] | None = None

    @abstractmethod
    def _work(self) -> AsyncGenerator[R, None]:
        """Do the work."""

    @abstractmethod
    def _outcome(self) -> T:
        """Return what all of the work amounts to."""

    def __iter__(self) -> Iterator[R]:
        return iterate(self._start)

    def __aiter__(self) -> AsyncIterator[R]:
        return self._start()

    async def aclose(self) -> None:
        """End the verb in order, if it has begun."""
        if self._records:
            await self._records.aclose()

    def result(self) -> T:
        """Do all the work and return what it amounts to; in a coroutine, use `wait`."""
        for _ in self:
            pass
        return self._outcome()

    async def wait(self) -> T:
        """Do all the work and return what it amounts to."""
        async with aclosing(self._start()) as records:
            async for _ in records:
                pass
        return self._outcome()

    def _start(self) -> AsyncGenerator[R, None]:
        if self._records:
            raise UsageError(f"this {self._verb} has been used", hint="call the function again for another run")
        self._records = self._work()
        return self._records


class RecordStream(CalledVerb[Record, Run]):
    """The records of a verb that was called, each stored in the verb's run before it is yielded; it amounts to the run.

    Nothing happens before the first record is asked for, and the verb waits for whoever reads its records. It runs
    once: `for` or `async for` yields the records, `result` or `wait` does all the work and returns the run. A loop that
    is left early ends the verb in order; `contextlib.aclosing(stream)` waits for that in a coroutine.

    Raises the errors of `railbed.errors`: UserError for files and arguments, DeviceError for devices and tools.
    """

    def __init__(
        self,
        invocation: Invocation,
        reach: Reach,
        store: Store | None = None,
        arguments: Sequence[str] = (),
        *,
        folders: list[Path] | None = None,
    ) -> None:
        super().__init__(invocation.verb)
        self.invocation = invocation
        self.reach = reach
        self._store = store
        self._arguments = arguments
        self._folders = [] if folders is None else folders
        """The run's folder, once it has begun: the same list for streams that `doing` made of one another."""

    def doing(self, work: Work) -> RecordStream:
        """Return the same verb with other work, which contains its own."""
        invocation = replace(self.invocation, work=work)
        return RecordStream(invocation, self.reach, self._store, self._arguments, folders=self._folders)

    def begin(self, folder: Path) -> None:
        """Note the run's folder."""
        self._folders.append(folder)

    @property
    def run(self) -> Run:
        """The run as it is now: its folder, what it stored, how it ended."""
        if not self._folders:
            raise UsageError(
                f"this {self.invocation.verb} has not begun", hint="ask for its first record or its result"
            )
        return Run(self._folders[0], summary_of(self._folders[0]))

    def _outcome(self) -> Run:
        return self.run

    async def _work(self) -> AsyncGenerator[Record, None]:
        starting = start_verb(self.invocation, self.reach, store=self._store, arguments=self._arguments)
        with starting as running:
            self.begin(running.run.folder)
            with running.ending():
                async with aclosing(running.records()) as records:
                    async for record in records:
                        yield record
            running.conclude()


class EventStream(CalledVerb[Event, list[Event]]):
    """The events of a verb that has no run, such as one of a lab; `result` and `wait` return the list of them.

    Nothing happens before the first event is asked for, and it can be used once, as a `RecordStream`.
    """

    def __init__(self, verb: str, work: Callable[[], AsyncGenerator[Record, None]]) -> None:
        super().__init__(verb)
        self._make = work
        self._events: list[Event] = []

    def _outcome(self) -> list[Event]:
        return self._events

    async def _work(self) -> AsyncGenerator[Event, None]:
        async with aclosing(self._make()) as events:
            async for event in events:
                assert isinstance(event, Event)
                self._events.append(event)
                yield event
