"""A verb that was called: its records, one after another, with or without `async`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from railbed.api.reach import Reach
from railbed.api.running import Invocation, Work, start_verb
from railbed.api.stored import Run
from railbed.api.thread import iterate
from railbed.errors import UsageError
from railbed.model.record import Record
from railbed.store import Store, summary_of


class RecordStream:
    """The records of a verb that was called, as they come; each is stored in the verb's run before it is yielded.

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
        self.invocation = invocation
        self.reach = reach
        self._store = store
        self._arguments = arguments
        self._folders = [] if folders is None else folders
        """The run's folder, once it has begun: the same list for streams that `doing` made of one another."""
        self._records: AsyncGenerator[Record, None] | None = None

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

    def __iter__(self) -> Iterator[Record]:
        return iterate(self._start)

    def __aiter__(self) -> AsyncIterator[Record]:
        return self._start()

    async def aclose(self) -> None:
        """End the verb in order, if it has begun."""
        if self._records:
            await self._records.aclose()

    def result(self) -> Run:
        """Do all the work and return the run; in a coroutine, use `wait`."""
        for _ in self:
            pass
        return self.run

    async def wait(self) -> Run:
        """Do all the work and return the run."""
        async with aclosing(self._start()) as records:
            async for _ in records:
                pass
        return self.run

    def _start(self) -> AsyncGenerator[Record, None]:
        if self._records:
            raise UsageError(
                f"this {self.invocation.verb} has been used", hint="call the function again for another run"
            )
        self._records = self._all()
        return self._records

    async def _all(self) -> AsyncGenerator[Record, None]:
        starting = start_verb(self.invocation, self.reach, store=self._store, arguments=self._arguments)
        with starting as running:
            self.begin(running.run.folder)
            with running.ending():
                async with aclosing(running.records()) as records:
                    async for record in records:
                        yield record
            running.conclude()
