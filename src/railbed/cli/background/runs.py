"""Training runs by name: found again, and the commands that go with one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import typer

from railbed import clusterfile
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.events import TrainingStarted
from railbed.store import RunSummary, find_run, list_runs, read_record, read_run_in, record_lines
from railbed.store.run import CLUSTER

NEWEST = "newest"
OUTPUT = "output.txt"
"""Where a run without a terminal writes what it would have written there."""

OF_NO_NEW_RUN = ("listing", "attach", "stop")
FIT_EVERYTHING = ("as_json",)


def refuse_mixtures(context: typer.Context) -> None:
    """Refuse an option that starts nothing beside one that says how to start: it would be passed over."""
    options = [option for option in context.command.params if option.name and was_given(context, option.name)]
    names = {str(option.name): option.opts[0] if option.opts[0].startswith("-") else "RECIPE" for option in options}
    alone = next((name for name in names if name in OF_NO_NEW_RUN), None)
    other = next((name for name in names if name not in (alone, *FIT_EVERYTHING)), None)
    if alone and other:
        raise UsageError(f"{names[alone]} and {names[other]} do not go together", hint="give them one at a time")
    own = next((names[name] for name in ("recipe", "settings") if name in names), None)
    if "resume" in names and own:
        raise UsageError(f"--resume and {own} do not go together", hint="a run continues with its own recipe")
    if "from_start" in names and "resume" not in names:
        raise UsageError("--from-start needs --resume RUN", hint="without --resume a run starts at step 1 anyway")


def was_given(context: typer.Context, name: str) -> bool:
    """Say whether an option stands on the command line, or only has its default."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def training_run(wanted: str) -> tuple[Path, RunSummary]:
    """Return the folder of a training run and what it says of itself."""
    name = next((run.id for run in list_runs() if run.verb == "train"), None) if wanted == NEWEST else wanted
    if name is None:
        raise UsageError("there is not a training run in this folder yet", hint="`railbed train` makes one")
    folder = find_run(name)
    summary = summary_of(folder)
    if summary.verb != "train":
        raise UsageError(f"{folder.name} is not a training run", hint="`railbed runs` lists them")
    return folder, summary


def begun(folder: Path) -> TrainingStarted:
    """Return what a training run began with."""
    with suppress(OSError):
        for line in record_lines(folder):
            with suppress(ValueError):
                record = read_record(line)
                if isinstance(record, TrainingStarted):
                    return record
    raise UsageError(f"{folder.name} ended before its training began", hint="`railbed runs` lists runs")


def cluster_of(folder: Path) -> Cluster:
    """Return the cluster of a run, as it was then."""
    if not (folder / CLUSTER).exists():
        raise UsageError(f"no cluster file is kept with {folder.name}", hint="give it: -c FILE")
    return clusterfile.load(folder / CLUSTER)


def summary_of(folder: Path) -> RunSummary:
    """Return what a run says of itself now."""
    summary = read_run_in(folder)
    if summary is None:
        raise UsageError(f"the run in {folder} cannot be read any more", hint="`railbed runs` lists those there are")
    return summary


def to_attach(run: str) -> str:
    """Return the command that shows a run."""
    return f"railbed train --attach {run}"


def to_stop(run: str) -> str:
    """Return the command that ends a run."""
    return f"railbed train --stop {run}"


def to_report(run: str) -> str:
    """Return the command that writes a page about a run."""
    return f"railbed report {run}"


def to_resume(run: RunSummary) -> str:
    """Return the command that continues a run that ended; it knows its cluster."""
    return f"railbed train --resume {run.id}"
