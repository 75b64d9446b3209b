"""The one loop around every verb: open the run, keep each record, show it, and turn the end into an exit code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path

from railbed import clusterfile
from railbed.cli.exits import BUG, DEVICE, FOUND, INTERRUPTED, OK, PIPE, exit_code
from railbed.cli.hints import advised
from railbed.cli.options import Options
from railbed.cli.screens.base import Screen
from railbed.cli.screens.choose import make_screen
from railbed.cli.signals import Interrupted, run_until_ended
from railbed.cli.site import recording_folder
from railbed.cli.unfinished import KeptRun
from railbed.errors import RailbedError, UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.private import for_us_alone
from railbed.model.record import Change, Event, Finding, Measurement, Record, Verdict
from railbed.store import OpenRun, Status, open_run
from railbed.transport.base import Reach, targets_of
from railbed.transport.reach import live_reach
from railbed.transport.record import Recorder, recorded
from railbed.transport.replay import replay_from

Work = Callable[[Fleet], AsyncGenerator[Record, None]]
Take = Callable[[Record], None]
Closing = Callable[[], Iterable[Record]]
"""Makes the last records of a verb that was cut short, from what it had until then."""
Beside = Callable[[Path], AbstractContextManager[Take]]
"""Makes more files of a run's records in the run's folder: entered when it begins, left when its end is written."""


def perform(
    verb: str,
    cluster: Cluster,
    options: Options,
    work: Work,
    *,
    all_must_answer: bool = False,
    must_measure: bool = False,
    must_know: bool = False,
    screen: Screen | None = None,
    beside: Beside | None = None,
    closing: Closing = tuple,
) -> int:
    """Run a verb on a cluster and return the exit code; an error that ends it says what is left of the run."""
    text = clusterfile.dumps(cluster)
    if options.record:
        _keep_cluster(options.record, text)
    screen = screen or make_screen(as_json=options.json, verbose=options.verbose, cluster=cluster)
    with open_run(verb, cluster_name=cluster.name, cluster_text=text) as run, ExitStack() as stack, screen:
        also = [stack.enter_context(beside(run.folder))] if beside else []
        screen.begin(run.folder)
        kept = KeptRun(run)
        takers = [run.append, kept.take, *also, screen.show]
        try:
            outcome = run_until_ended(_loop(cluster, options, work, run, takers), screen.line.end)
            code, reason = outcome.end(all_must_answer=all_must_answer, must_measure=must_measure, must_know=must_know)
        except KeyboardInterrupt:
            _cut_short(run, "interrupted", INTERRUPTED, screen, takers, closing)
            raise Interrupted(*kept.notes()) from None
        except BrokenPipeError:
            run.finish("interrupted", PIPE)
            raise
        except RailbedError as error:
            run.append(Event(name="error", message=error.message))
            _cut_short(run, "failed", exit_code(error), screen, takers, closing)
            _annotate(error, kept.notes())
            raise
        except BaseException as error:
            run.finish("failed", BUG)
            _annotate(error, kept.notes())
            raise
        run.finish("done", code)
        screen.finish(run.folder)
        if must_know and reason:
            screen.conclude(f"exit code {code}: {reason}")
    return code


def _cut_short(
    run: OpenRun, status: Status, code: int, screen: Screen, takers: Sequence[Take], closing: Closing
) -> None:
    """Keep and show what can be said of a run that did not come to its end, and write down how it ended."""
    try:
        with suppress(OSError):  # a terminal that was closed
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


async def _loop(cluster: Cluster, options: Options, work: Work, run: OpenRun, takers: Sequence[Take]) -> _Outcome:
    outcome = _Outcome()
    async with (
        _reach(options, run) as reach,
        Fleet(targets_of(cluster), reach, timeout=options.timeout) as fleet,
        aclosing(work(fleet)) as records,
    ):
        async for plain in records:
            record = advised(plain)
            for take in takers:
                take(record)
            outcome.see(record)
    return outcome


class _Outcome:
    """Watches the records go by for what decides the exit code."""

    def __init__(self) -> None:
        self._failed = 0
        self._changes = 0
        self._asked = 0
        self._answered = 0
        self._judged = 0
        self._unknown = 0
        self._measured = 0
        self._mishap = ""
        """What makes an end that came in order no good end: an intruder, nodes that were lost on the way."""
        self._undetermined: dict[str, None] = {}
        """Rules that training depends on and that could not be judged everywhere."""

    def see(self, record: Record) -> None:
        match record:
            case Finding():
                self._see_finding(record)
            case Change():
                self._changes += 1
            case Event(name="intrusion" | "ending", message=message):
                self._mishap = message
            case Measurement():
                self._measured += 1
            case Event(name="device_read", data=data):
                self._asked += 1
                self._answered += bool(data.get("ok"))
            case _:
                pass

    def _see_finding(self, finding: Finding) -> None:
        self._failed += finding.verdict is Verdict.FAIL
        if finding.verdict is Verdict.UNKNOWN and finding.essential:
            self._undetermined[finding.check] = None
        if finding.check != "reachable":
            self._unknown += finding.verdict is Verdict.UNKNOWN
            self._judged += finding.verdict in (Verdict.OK, Verdict.WARN, Verdict.FAIL)

    def end(self, *, all_must_answer: bool, must_measure: bool, must_know: bool) -> tuple[int, str]:
        """Return the exit code and its reason; what could not be found out has its own code and is never "all well"."""
        enough = self._asked if all_must_answer else min(self._asked, 1)
        if self._answered < enough:
            return DEVICE, "no node answered" if not self._answered else "not every node answered"
        if self._unknown and not self._judged:
            return DEVICE, "nothing could be judged"
        if self._failed or self._changes:
            return FOUND, f"{self._failed} finding{'s' if self._failed != 1 else ''} failed"
        if self._mishap:
            return FOUND, self._mishap
        if must_know and self._undetermined:
            return DEVICE, f"training depends on what is unknown: {', '.join(self._undetermined)}"
        return (DEVICE, "nothing was measured") if must_measure and not self._measured else (OK, "")


@asynccontextmanager
async def _reach(options: Options, run: OpenRun) -> AsyncIterator[Reach]:
    with ExitStack() as stack:
        folders = [run.raw, *([options.record] if options.record else [])]
        recorders = [stack.enter_context(Recorder(folder)) for folder in folders]
        if options.replay:
            yield recorded(replay_from(recording_folder(options.replay)), *recorders)
        else:
            async with live_reach() as reach:
                yield recorded(reach, *recorders)


def _keep_cluster(folder: Path, text: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", hint="give a new folder to record to")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder / "cluster.yaml", "w", encoding="utf-8", opener=for_us_alone) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot record to {folder}: {os_reason(error)}") from error
