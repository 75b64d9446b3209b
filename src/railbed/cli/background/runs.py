"""Training runs by name, and the commands for a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import typer

from railbed.cli.run_kinds import TRAINING, chosen_run
from railbed.errors import UsageError
from railbed.model import events
from railbed.store import RunKind, RunSummary, is_own_folder, list_runs, read_run_in, runs_folder
from railbed.store.proof import first_training

OUTPUT = "output.txt"
"""The output of a run without a terminal."""

OF_NO_NEW_RUN = ("listing", "attach", "stop")
FIT_EVERYTHING = ("as_json",)


def refuse_mixtures(context: typer.Context) -> None:
    """Refuse options that start nothing together with options for a start, which would be ignored."""
    options = [option for option in context.command.params if option.name and was_given(context, option.name)]
    names = {str(option.name): option.opts[0] if option.opts[0].startswith("-") else "RECIPE" for option in options}
    alone = next((name for name in names if name in OF_NO_NEW_RUN), None)
    other = next((name for name in names if name not in (alone, *FIT_EVERYTHING)), None)
    if alone and other:
        raise UsageError(f"{names[alone]} and {names[other]} cannot be combined", hint="use one of them")
    own = next((names[name] for name in ("recipe", "settings") if name in names), None)
    if "resume" in names and own:
        raise UsageError(f"--resume and {own} cannot be combined", hint="a run continues with its own recipe")
    if "from_start" in names and "resume" not in names:
        raise UsageError("--from-start needs --resume RUN", hint="without --resume a run starts at step 1 anyway")


def was_given(context: typer.Context, name: str) -> bool:
    """Whether an option is on the command line, rather than only having its default."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def training_run(wanted: str, kind: RunKind = TRAINING) -> tuple[Path, RunSummary]:
    """Return the folder of a training run and its summary.

    `newest` is one of a kind, if there is any; a run in progress may have the name that it has on its nodes.
    """
    folder = chosen_run(jobs_in_progress().get(wanted, wanted), kind, TRAINING)
    summary = summary_of(folder)
    if summary.verb != "train":
        raise UsageError(f"{folder.name} is not a training run", hint="`railbed runs` lists them")
    return folder, summary


def begun(folder: Path) -> events.TrainingStarted:
    """Return the first event of a training run."""
    if training := first_training(folder):
        return training[1]
    raise UsageError(f"{folder.name} ended before its training began", hint="`railbed runs` lists runs")


def jobs_in_progress() -> dict[str, str]:
    """Return the names of the training runs of this folder that are in progress, by the names of their jobs."""
    names = {}
    for run in list_runs():
        if run.verb == "train" and run.status == "running" and is_own_folder(runs_folder() / run.id):
            with suppress(UsageError):
                names[begun(runs_folder() / run.id).run] = run.id
    return names


def summary_of(folder: Path) -> RunSummary:
    """Return the current summary of a run."""
    summary = read_run_in(folder)
    if summary is None:
        raise UsageError(f"the run in {folder} can no longer be read", hint="`railbed runs` lists the runs")
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
    """Return the command that continues a run that ended: on its own cluster, or as another Slurm job."""
    if run.arguments[:1] == ["submit"]:
        return f"railbed submit train --resume {run.id} --nodes {_nodes(run.arguments)}"
    return f"railbed train --resume {run.id}"


def _nodes(arguments: Sequence[str]) -> str:
    """Return the number of nodes that a run was submitted for."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--nodes=") else (word,))]
    after = (value for option, value in pairwise(words) if option in ("--nodes", "-N") and value.isdigit())
    return next(after, "1")
