"""The loop around every verb: open the run, store and show each record, return the verb's exit code."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path

from railbed import clusterfile
from railbed.cli.exits import BUG, INTERRUPTED, PIPE, exit_code
from railbed.cli.hints import advised
from railbed.cli.options import Options
from railbed.cli.run.signals import Interrupted, run_until_ended
from railbed.cli.run.unfinished import KeptRun
from railbed.cli.screens.base import Screen
from railbed.cli.screens.choose import make_screen
from railbed.cli.site import recording_folder
from railbed.cli.tally import Conclusion, Decide, Tally, conclude
from railbed.errors import RailbedError, UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.private import for_us_alone
from railbed.model.record import Record
from railbed.model.text.paths import exists, is_folder
from railbed.store import OpenRun, Status, open_run
from railbed.transport.base import Connector, Target, targets_of
from railbed.transport.connect import live_connector
from railbed.transport.record import Recorder, recording_connector
from railbed.transport.replay import replay_connector

Work = Callable[[Fleet], AsyncGenerator[Record, None]]
Take = Callable[[Record], None]
Closing = Callable[[], Iterable[Record]]
"""Returns the last records of an interrupted verb, from its results so far."""
ACTED_ON = ("train", "bench")
"""Verbs whose runs later commands work on: they continue training, fetch results, and remove files of nodes."""
Beside = Callable[[Path], AbstractContextManager[Take]]
"""Writes further files in the run's folder from its records: entered at the start of the run, left after its end."""


class LeftEarly(Exception):
    """A verb ended before its work was done, in order; its run may continue later."""

    def __init__(self, status: Status, code: int) -> None:
        super().__init__(status)
        self.status: Status = status
        self.code = code


def perform(
    verb: str,
    cluster: Cluster,
    options: Options,
    work: Work,
    *,
    decide: Decide = conclude,
    screen: Screen | None = None,
    beside: Beside | None = None,
    closing: Closing = tuple,
    changing: bool = False,
) -> int:
    """Run a verb on a cluster and return the exit code; an error that ends it gets notes about what was saved.

    `changing` reaches every device in a way that can change it.
    """
    text = clusterfile.dumps(cluster)
    if options.record:
        _keep_cluster(options.record, text)
    screen = screen or make_screen(as_json=options.json, verbose=options.verbose, cluster=cluster)
    with open_run(verb, cluster_name=cluster.name, cluster_text=text) as run, ExitStack() as stack, screen:
        also = [stack.enter_context(beside(run.folder))] if beside else []
        if run.unproven and verb in ACTED_ON:
            sys.stderr.write(f"railbed: later commands need -c FILE for this run: {run.unproven.message}\n")
        screen.begin(run.folder)
        unfinished = KeptRun(run)
        tally = Tally()
        takers = [run.append, unfinished.take, *also, screen.show, tally.count]
        try:
            targets = targets_of(cluster, changing=changing)
            run_until_ended(_loop(targets, options, work, run, takers), screen.line.end)
        except KeyboardInterrupt:
            _cut_short(run, "stopped", INTERRUPTED, screen, takers, closing)
            raise Interrupted(*unfinished.notes()) from None
        except LeftEarly as left:
            _cut_short(run, left.status, left.code, screen, takers, closing)
            raise
        except BrokenPipeError:
            run.finish("stopped", PIPE)
            raise
        except RailbedError as error:
            run.append(events.ErrorReported(message=error.message))
            _cut_short(run, "failed", exit_code(error), screen, takers, closing)
            _annotate(error, unfinished.notes())
            raise
        except BaseException as error:
            run.finish("failed", BUG)
            _annotate(error, unfinished.notes())
            raise
        return _complete(run, screen, decide(tally))


def _complete(run: OpenRun, screen: Screen, conclusion: Conclusion) -> int:
    """Record the end of a run that completed its work, show it, and return the exit code."""
    run.finish("done", conclusion.code)
    screen.finish(run.folder)
    if conclusion.announced and conclusion.reason:
        screen.conclude(f"exit code {conclusion.code}: {conclusion.reason}")
    return conclusion.code


def _cut_short(
    run: OpenRun, status: Status, code: int, screen: Screen, takers: Sequence[Take], closing: Closing
) -> None:
    """Store and show the results of a run that did not complete, and record how it ended."""
    try:
        with suppress(OSError):  # the terminal was closed
            for record in closing():
                for take in takers:
                    take(record)
    finally:
        run.finish(status, code)
    with suppress(OSError):
        screen.cut_short(run.folder)


def _annotate(error: BaseException, notes: Iterable[str]) -> None:
    for note in notes:
        error.add_note(note)


async def _loop(targets: Sequence[Target], options: Options, work: Work, run: OpenRun, takers: Sequence[Take]) -> None:
    async with (
        _connector(options, run) as connect,
        Fleet(targets, connect, timeout=options.timeout) as fleet,
        aclosing(work(fleet)) as records,
    ):
        async for plain in records:
            record = advised(plain)
            for take in takers:
                take(record)


@asynccontextmanager
async def _connector(options: Options, run: OpenRun) -> AsyncIterator[Connector]:
    with ExitStack() as stack:
        folders = [run.raw, *([options.record] if options.record else [])]
        recorders = [stack.enter_context(Recorder(folder)) for folder in folders]
        if options.replay:
            yield recording_connector(replay_connector(recording_folder(options.replay)), *recorders)
        else:
            async with live_connector() as live:
                yield recording_connector(live, *recorders)


def _keep_cluster(folder: Path, text: str) -> None:
    if exists(folder) and (not is_folder(folder) or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", hint="choose a new folder to record to")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder / "cluster.yaml", "w", encoding="utf-8", opener=for_us_alone) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot record to {folder}: {os_reason(error)}") from error
