"""The engine of every verb: opens its run, stores each record and passes it on, and records how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from railbed import clusterfile
from railbed.api.exits import BUG, INTERRUPTED, PIPE, exit_code
from railbed.api.reach import Reach
from railbed.api.site import recording_folder
from railbed.api.tally import Conclusion, Decide, Tally, conclude
from railbed.errors import RailbedError, UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.private import for_us_alone
from railbed.model.record import Record
from railbed.model.text import exists, is_folder
from railbed.store import OpenRun, Status, Store, open_run
from railbed.transport.base import Connector, targets_of
from railbed.transport.connect import live_connector
from railbed.transport.record import OutputRecorder, recording_connector
from railbed.transport.replay import replay_connector

Work = Callable[[Fleet], AsyncGenerator[Record, None]]
Take = Callable[[Record], None]
Revise = Callable[[Record], Record]
Closing = Callable[[], Iterable[Record]]
"""Returns the last records of an interrupted verb, from its results so far."""
Beside = Callable[[Path], AbstractContextManager[Take]]
"""Writes further files in the run's folder from its records: entered at the start of the run, left after its end."""


class LeftEarly(Exception):
    """A verb ended before its work was done, in order; its run may continue later."""

    def __init__(self, status: Status, code: int) -> None:
        super().__init__(status)
        self.status: Status = status
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A verb that was called: its work on a cluster, and what belongs to its run."""

    verb: str
    cluster: Cluster
    work: Work
    decide: Decide = conclude
    beside: Beside | None = None
    closing: Closing = tuple
    changing: bool = False
    """Reach every device in a way that can change it."""


class RunningVerb:
    """A verb whose run is open."""

    def __init__(
        self,
        invocation: Invocation,
        reach: Reach,
        run: OpenRun,
        *,
        takers: Iterable[Take] = (),
        revise: Revise | None = None,
    ) -> None:
        self.run = run
        self.takers: list[Take] = [run.append, *takers]
        """What gets each record, in order, before the next one is made."""
        self._invocation = invocation
        self._reach = reach
        self._revise = revise
        self._tally = Tally()

    async def records(self) -> AsyncGenerator[Record, None]:
        """Yield each record once it is stored."""
        targets = targets_of(self._invocation.cluster, changing=self._invocation.changing)
        async with (
            _connector(self._reach, self.run) as connect,
            Fleet(targets, connect, timeout=self._reach.timeout) as fleet,
            aclosing(self._invocation.work(fleet)) as records,
        ):
            async for plain in records:
                record = self._revise(plain) if self._revise else plain
                self._take(record)
                yield record

    async def complete(self) -> None:
        """Do all the work."""
        async with aclosing(self.records()) as records:
            async for _ in records:
                pass

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Record how the work inside ends early: interrupted, or by an error, which is raised again."""
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit):
            self._cut_short("stopped", INTERRUPTED)
            raise
        except LeftEarly as left:
            self._cut_short(left.status, left.code)
            raise
        except BrokenPipeError:
            self.run.finish("stopped", PIPE)
            raise
        except RailbedError as error:
            self.run.append(events.ErrorReported(message=error.message))
            self._cut_short("failed", exit_code(error))
            raise
        except BaseException:
            self.run.finish("failed", BUG)
            raise

    def conclude(self) -> Conclusion:
        """Record that the work is complete; return the exit code, and why it is not 0."""
        conclusion = self._invocation.decide(self._tally)
        self.run.finish("done", conclusion.code)
        return conclusion

    def _take(self, record: Record) -> None:
        for take in self.takers:
            take(record)
        self._tally.count(record)

    def _cut_short(self, status: Status, code: int) -> None:
        """Store the results of a run that did not complete, and how it ended."""
        try:
            with suppress(OSError):  # the terminal was closed
                for record in self._invocation.closing():
                    self._take(record)
        finally:
            self.run.finish(status, code)


@contextmanager
def start_verb(
    invocation: Invocation,
    reach: Reach,
    *,
    store: Store | None = None,
    arguments: Sequence[str] = (),
    revise: Revise | None = None,
) -> Iterator[RunningVerb]:
    """Open the run of a verb, whose work has not begun yet.

    `arguments` are the words of a command line that does the same; `revise` changes records before they are stored.
    """
    cluster = invocation.cluster
    text = clusterfile.dumps(cluster)
    if reach.record:
        keep_cluster(reach.record, text)
    opened = open_run(
        invocation.verb, cluster_name=cluster.name, cluster_text=text, arguments=arguments, store=store or Store()
    )
    with opened as run, ExitStack() as stack:
        takers = [stack.enter_context(invocation.beside(run.folder))] if invocation.beside else []
        yield RunningVerb(invocation, reach, run, takers=takers, revise=revise)


@asynccontextmanager
async def _connector(reach: Reach, run: OpenRun) -> AsyncIterator[Connector]:
    with ExitStack() as stack:
        folders = [run.raw, *([reach.record] if reach.record else [])]
        recorders = [stack.enter_context(OutputRecorder(folder)) for folder in folders]
        if reach.replay:
            yield recording_connector(replay_connector(recording_folder(reach.replay)), *recorders)
        else:
            async with live_connector(timeout=reach.timeout) as live:
                yield recording_connector(live, *recorders)


def keep_cluster(folder: Path, text: str) -> None:
    """Begin a recording with its cluster file, in a folder that is new or empty."""
    if exists(folder) and (not is_folder(folder) or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", hint="choose a new folder to record to")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder / "cluster.yaml", "w", encoding="utf-8", opener=for_us_alone) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot record to {folder}: {os_reason(error)}") from error
