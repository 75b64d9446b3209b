"""`railbed train --attach`: shows a run from its records, while it is running or afterwards.

The run of a job is followed while it waits, runs, and starts again; Ctrl-C leaves the job alone.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from railbed.api.exits import INTERRUPTED
from railbed.cli.background.runs import OUTPUT, conclude, show_records, to_attach, to_stop, training_run
from railbed.cli.background.stop import end_job
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.screens.choose import make_screen
from railbed.cli.screens.progress import ProgressLine
from railbed.cli.screens.train import TrainScreen
from railbed.cli.slurm.jobs import JobEnded, JobWatch, never_starts, obstacle, settle
from railbed.errors import UsageError
from railbed.model.events import Notice
from railbed.model.events.general import progress
from railbed.store import RunSummary, summary_of
from railbed.store.find import cluster_to_read
from railbed.store.run import RECORDS, refuse_foreign_run
from railbed.store.submitted import was_submitted


def attach_run(name: str, *, as_json: bool) -> int:
    """Show a run until it ends, and return its exit code; Ctrl-C leaves the run alone."""
    folder, summary = training_run(name)
    return attach_in(folder, summary, as_json=as_json)


def attach_in(folder: Path, summary: RunSummary, *, as_json: bool) -> int:
    """Show the run in a folder: from its job, if it was submitted."""
    if was_submitted(folder):
        refuse_foreign_run(folder, f"railbed runs --attach {folder.name}")
        # Imported here because it loads Slurm's part of the transport, which few runs need.
        from railbed.cli.slurm.lookup import job_number

        if (number := job_number(folder)) is not None:
            return follow_job(folder, number, as_json=as_json)
    if summary.status == "running":
        sys.stderr.write(f"{summary.id} is running; Ctrl-C closes this view and does not stop the run\n")
    try:
        run_until_ended(_view(folder, as_json=as_json))
    except KeyboardInterrupt:
        if summary_of(folder).status == "running":
            again, end = to_attach(summary.id), to_stop(summary.id)
            sys.stderr.write(f"{summary.id} is still running: `{again}` shows it again, `{end}` stops it\n")
        raise SystemExit(INTERRUPTED) from None
    return conclude(folder, summary_of(folder))


async def _view(folder: Path, *, as_json: bool) -> None:
    screen: Screen = JsonScreen() if as_json else TrainScreen(verbose=False)
    with screen:
        await show_records(folder, screen, only_drawn=not as_json)
        screen.finish(folder)


POLL_SECONDS = 0.2


class NeverStarts(UsageError):
    """A job was cancelled because it could never start."""


def follow_job(folder: Path, number: int, *, as_json: bool, gives_up: bool = False) -> int:
    """Show a run until its job has ended, and return the run's exit code.

    With `gives_up`, a job that can never start is cancelled: whoever submitted it would wait for ever.
    """
    try:
        watch = run_until_ended(_follow(folder, number, as_json=as_json, gives_up=gives_up))
    except KeyboardInterrupt:
        sys.stderr.write(
            f"job {number} goes on without this view\n"
            f"  `{to_attach_job(folder)}` shows it again, `{to_stop_job(folder)}` stops it\n"
        )
        raise SystemExit(INTERRUPTED) from None
    if watch.trouble:
        raise watch.trouble
    reason = run_until_ended(settle(folder, summary_of(folder), number, watch.queued))
    if reason:
        output = folder / OUTPUT
        where = f"its output is in {output}" if output.exists() else "it never started"
        raise JobEnded(f"job {number} of {folder.name} ended: {reason}", hint=where)
    return conclude(folder, summary_of(folder))


def to_attach_job(folder: Path) -> str:
    """Return the command that shows the run of a job."""
    return f"railbed runs --attach {folder.name}"


def to_stop_job(folder: Path) -> str:
    """Return the command that ends a job and its run."""
    return f"railbed runs --stop {folder.name}"


async def _follow(folder: Path, number: int, *, as_json: bool, gives_up: bool) -> JobWatch:
    watch = JobWatch(folder, number)
    with watch.watching():
        await _await_start(folder, watch, as_json=as_json, gives_up=gives_up)
        if (folder / RECORDS).exists():
            await _job_view(folder, watch, as_json=as_json)
        await watch.ended.wait()
    return watch


async def _await_start(folder: Path, watch: JobWatch, *, as_json: bool, gives_up: bool) -> None:
    """Wait for the first record; it is stored after everything that a screen needs."""
    before = ""
    with ProgressLine(shown=not as_json) as line:
        line.activity.begin(f"job {watch.number}")
        while watch.is_live and not _has_records(folder):
            if watch.queued:
                line.activity.begin(f"job {watch.number} is {watch.queued.in_words}")
            hindered = obstacle(watch.queued)
            if gives_up and never_starts(watch.queued):
                await end_job(folder, watch.number, summary_of(folder))
                raise NeverStarts(f"{hindered}, and was cancelled", hint="submit it with another request")
            if hindered and hindered != before:
                _report_obstacle(folder, hindered, None if as_json else line)
            before = hindered
            await asyncio.sleep(POLL_SECONDS)


def _report_obstacle(folder: Path, sentence: str, line: ProgressLine | None) -> None:
    if line is None:
        JsonScreen().show(Notice(message=sentence))
        return
    line.print_line(sentence)
    line.print_line(f"  `{to_stop_job(folder)}` takes it out of the queue")


def _has_records(folder: Path) -> bool:
    try:
        return (folder / RECORDS).stat().st_size > 0
    except OSError:
        return False


async def _job_view(folder: Path, watch: JobWatch, *, as_json: bool) -> None:
    verb = summary_of(folder).verb
    screen = _screen(folder, verb, as_json=as_json)
    with screen:
        screen.begin(folder)
        reporter = asyncio.create_task(_report_waits(watch, screen))
        try:
            only_drawn = verb == "train" and not as_json
            await show_records(folder, screen, only_drawn=only_drawn, in_progress=lambda _: watch.is_live)
        finally:
            reporter.cancel()
        screen.finish(folder)


async def _report_waits(watch: JobWatch, screen: Screen) -> None:
    """Show that the job is in the queue again, and that it has left it."""
    before = ""
    while True:
        waits = watch.queued.in_words if watch.queued and watch.queued.is_waiting else ""
        if waits != before:
            screen.show(progress(f"job {watch.number} {f'is {waits}' if waits else 'starts again'}"))
            if hindered := obstacle(watch.queued):
                screen.show(Notice(message=hindered))
        before = waits
        await asyncio.sleep(POLL_SECONDS)


def _screen(folder: Path, verb: str, *, as_json: bool) -> Screen:
    if as_json:
        return JsonScreen()
    # Imported here because each loads what only its verb needs.
    if verb == "train":
        from railbed.cli.screens.train import TrainScreen

        return TrainScreen(verbose=False)
    if verb == "bench":
        from railbed.cli.screens.bench import BenchScreen

        return BenchScreen(verbose=False)
    return make_screen(as_json=False, verbose=False, cluster=cluster_to_read(folder))
