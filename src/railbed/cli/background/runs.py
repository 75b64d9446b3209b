"""Training runs by name, what their records show, and the commands for them: runs of this machine and of jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import typer

from railbed.api.exits import BUG
from railbed.api.kinds import TRAINING
from railbed.cli.chosen import chosen_run
from railbed.cli.screens.base import Screen
from railbed.errors import DeviceError, UsageError
from railbed.store import RunKind, RunSummary, follow, summary_of
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


class Died(DeviceError):
    """The process of a run was killed, or its machine went down."""


async def show_records(
    folder: Path, screen: Screen, *, only_drawn: bool, in_progress: Callable[[Path], bool] | None = None
) -> None:
    """Show the records of a run, as they are written, until it ends; with `only_drawn`, those that a training shows."""
    # Imported here because it loads the sections of the report, which most verbs do not need.
    from railbed.cli.screens.train import KEPT

    names, rank = (KEPT, 0) if only_drawn else ((), None)
    async with aclosing(follow(folder, names=names, rank=rank, in_progress=in_progress)) as records:
        async for record in records:
            screen.show(record)


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
