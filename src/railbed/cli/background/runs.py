"""Training runs by name, and the commands for a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import typer

from railbed.api.kinds import TRAINING
from railbed.cli.chosen import chosen_run
from railbed.errors import UsageError
from railbed.store import RunKind, RunSummary, summary_of
from railbed.store.find import jobs_in_progress

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
