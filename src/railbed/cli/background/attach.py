"""`railbed train --attach`: shows a run from its records, while it is running or afterwards."""

from __future__ import annotations

import sys
from contextlib import aclosing, suppress
from pathlib import Path

from railbed.api.exits import BUG, INTERRUPTED
from railbed.cli.background.runs import OUTPUT, to_attach, to_resume, to_stop, training_run
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.train import TrainScreen
from railbed.cli.screens.train_summary import KEPT
from railbed.errors import DeviceError
from railbed.model.record import Record
from railbed.store import RunSummary, follow, read_record, summary_of
from railbed.store.ownership import refuse_foreign_run
from railbed.store.submitted import was_submitted

MEASUREMENT = b'"kind":"measurement"'
FIRST_RANK = b'"rank":0,'
DRAWN = tuple(f'"name":"{name}"'.encode() for name in KEPT)
"""The measurements that are shown; reading all of them takes minutes for a run of several days."""


class Died(DeviceError):
    """The process of a run was killed, or its machine went down."""


def attach_run(name: str, *, as_json: bool) -> int:
    """Show a run until it ends, and return its exit code; Ctrl-C leaves the run alone."""
    folder, summary = training_run(name)
    return attach_in(folder, summary, as_json=as_json)


def attach_in(folder: Path, summary: RunSummary, *, as_json: bool) -> int:
    """Show the run in a folder: from its job, if it was submitted."""
    if was_submitted(folder):
        refuse_foreign_run(folder, f"railbed runs --attach {folder.name}")
        # Imported here because it loads Slurm's part of the transport, which few runs need.
        from railbed.cli.slurm.follow import follow_job
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
        async with aclosing(follow(folder)) as lines:
            async for line in lines:
                record = parse_line(line) if as_json or is_drawn(line) else None
                if record is not None:
                    screen.show(record)
        screen.finish(folder)


def is_drawn(line: bytes) -> bool:
    """Whether the screen of a training shows the record of a line."""
    return MEASUREMENT not in line or (FIRST_RANK in line and any(name in line for name in DRAWN))


def parse_line(line: bytes) -> Record | None:
    """Return the record of a line; None if it is damaged, or from a later version of railbed."""
    with suppress(ValueError):
        return read_record(line)
    return None


def conclude(folder: Path, summary: RunSummary) -> int:
    """Explain how a run ended unless it succeeded, and return its exit code."""
    resume = f"`{to_resume(summary)}` continues from its last intact checkpoint" if summary.verb == "train" else ""
    match summary.status:
        case "died":
            raise Died(f"{summary.id} ended abnormally: its process was killed, or its machine went down", hint=resume)
        case "stopped":
            sys.stderr.write(_lines(f"{summary.id} was stopped", resume))
            raise SystemExit(summary.exit)
        case "failed":
            output = folder / OUTPUT
            why = f": {summary.unstored}" if summary.unstored else ""
            where = f"; its output is in {output}" if output.exists() else ""
            sys.stderr.write(_lines(f"{summary.id} failed{why}{where}", resume))
    return BUG if summary.exit is None else summary.exit


def _lines(sentence: str, hint: str) -> str:
    return f"{sentence}\n  {hint}\n" if hint else f"{sentence}\n"
