"""A run as a screen shows it from its records, and how it ended: for runs on this machine and for those of jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from railbed.api.exits import BUG
from railbed.cli.background.runs import OUTPUT, to_resume
from railbed.cli.screens.base import Screen
from railbed.cli.screens.train_summary import KEPT
from railbed.errors import DeviceError
from railbed.store import RunSummary, follow


class Died(DeviceError):
    """The process of a run was killed, or its machine went down."""


async def show_records(
    folder: Path, screen: Screen, *, only_drawn: bool, in_progress: Callable[[Path], bool] | None = None
) -> None:
    """Show the records of a run, as they are written, until it ends; with `only_drawn`, those that a training shows."""
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
