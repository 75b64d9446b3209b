"""`railbed train --attach`: shows a run from its records, while it is running or afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed.api.exits import INTERRUPTED
from railbed.cli.background.runs import to_attach, to_stop, training_run
from railbed.cli.background.view import conclude, show_records
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.train import TrainScreen
from railbed.store import RunSummary, summary_of
from railbed.store.ownership import refuse_foreign_run
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
        await show_records(folder, screen, only_drawn=not as_json)
        screen.finish(folder)
