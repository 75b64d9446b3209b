"""railbed runs"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json

from railbed.api.kinds import ATTACHABLE, IN_PROGRESS
from railbed.api.stored import runs as stored_runs
from railbed.cli.background.runs import training_run
from railbed.cli.chosen import chosen_run
from railbed.cli.console import SafeConsole
from railbed.cli.options import JsonOption
from railbed.cli.run.unfinished import next_command
from railbed.cli.screens.runs import RunRow, show_continuation, show_runs
from railbed.cli.slurm.lookup import read_jobs
from railbed.errors import UsageError
from railbed.store import RunSummary, Status, find_run, summary_of
from railbed.store.submitted import was_submitted

UNFINISHED: Mapping[Status, str] = {"died": "was killed", "stopped": "was stopped", "failed": "failed"}
ENDLESS = ("watch",)
"""Verbs that end when they are stopped."""
MOST_CONTINUED = 3
"""After the table, the command that continues is shown for this many of the newest incomplete runs."""

RunsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[RUN]…", help="With --clean: remove only these runs, by name.")
]
CleanOption = Annotated[
    bool,
    typer.Option("--clean", help="List files that runs left here and on their nodes, and remove them once you agree."),
]
KeepOption = Annotated[int, typer.Option("--keep", metavar="N", min=0, help="With --clean: keep the newest N runs.")]
NodesOption = Annotated[
    Path | None,
    typer.Option("--cluster", "-c", metavar="FILE", help="With --clean: include the nodes of this cluster file."),
]
AttachOption = Annotated[
    str | None,
    typer.Option(
        "--attach", metavar="RUN", help="Show a run (name, folder or newest), or its Slurm job, until it ends."
    ),
]
StopOption = Annotated[
    str | None,
    typer.Option(
        "--stop",
        metavar="RUN",
        help="Stop a run (name, folder or newest); a Slurm job that trains saves its state first.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="With --clean: do not ask.")]


def runs_command(
    names: RunsArgument = None,
    clean_up: CleanOption = False,
    keep: KeepOption = 0,
    yes: YesOption = False,
    cluster: NodesOption = None,
    attach: AttachOption = None,
    stop: StopOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the runs saved in this folder and their Slurm jobs, the newest first; show or stop one; remove old files.

    Example: railbed runs --clean --keep 5
    """
    if clean_up:
        from railbed.cli.verbs.runs.clean import Wish, clean  # a list needs no network

        return clean(Wish(names=names or (), keep=keep, yes=yes, cluster=cluster, json=as_json))
    if names or keep or yes or cluster:
        raise UsageError("RUN, --keep, --yes and --cluster are only for --clean", hint="add --clean")
    if attach is not None or stop is not None:
        return _attach_or_stop(attach, stop, as_json=as_json)
    runs = [run.summary for run in stored_runs()]
    jobs = read_jobs(runs)
    if as_json:
        for run in runs:
            line = {
                "kind": "run",
                **to_dict(run),
                "next": "" if jobs.is_live(run.id) else _next(run),
                **jobs.fields(run.id),
            }
            sys.stdout.write(to_json(line).decode() + "\n")
        return 0
    if not runs:
        SafeConsole(stderr=True).print("no runs in this folder yet: `railbed check` starts one")
        return 0
    show_runs([RunRow(run=run, status=jobs.status(run)) for run in runs])
    for run in [run for run in runs if _is_unfinished(run) and not jobs.is_live(run.id)][:MOST_CONTINUED]:
        show_continuation(run.id, _how_it_ended(run), _next(run))
    return 0


def _how_it_ended(run: RunSummary) -> str:
    return f"{UNFINISHED[run.status]}{f': {run.unstored}' if run.unstored else ''}"


def _attach_or_stop(attach: str | None, stop: str | None, *, as_json: bool) -> int:
    """Show or stop a run: a training, or the Slurm job of any verb."""
    # Imported here because a list needs no screens.
    from railbed.cli.background.attach import attach_in
    from railbed.cli.background.stop import stop_in

    if attach is not None and stop is not None:
        raise UsageError("--attach and --stop cannot be combined", hint="use one of them")
    kinds = (ATTACHABLE,) if attach is not None else (IN_PROGRESS, ATTACHABLE)
    folder = chosen_run(attach if attach is not None else stop, *kinds)
    if not was_submitted(folder):
        training_run(str(folder))  # raises for other verbs
    show_or_stop = attach_in if attach is not None else stop_in
    return show_or_stop(folder, summary_of(folder), as_json=as_json)


def to_dict(run: RunSummary) -> dict[str, object]:
    """Return a run as a flat record."""
    return {name: getattr(run, name) for name in RunSummary.__dataclass_fields__}


def _is_unfinished(run: RunSummary) -> bool:
    return run.status in UNFINISHED and not (run.status == "stopped" and run.verb in ENDLESS)


def _next(run: RunSummary) -> str:
    """Return the command that continues an incomplete run."""
    return next_command(run, find_run(run.id)) if _is_unfinished(run) else ""
