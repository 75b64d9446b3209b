"""A run as a screen shows it from its records, and how it ended: for runs on this machine and for those of jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path

from railbed.api.exits import BUG
from railbed.cli.background.runs import OUTPUT, to_resume
from railbed.cli.screens.base import Screen
from railbed.cli.screens.train_summary import KEPT
from railbed.errors import DeviceError
from railbed.model.record import Record
from railbed.store import RunSummary, follow, read_record

MEASUREMENT = b'"kind":"measurement"'
FIRST_RANK = b'"rank":0,'
DRAWN = tuple(f'"name":"{name}"'.encode() for name in KEPT)
"""The measurements that a training's screen shows; reading all of them takes minutes for a run of several days."""


class Died(DeviceError):
    """The process of a run was killed, or its machine went down."""


async def show_records(
    folder: Path, screen: Screen, *, only_drawn: bool, in_progress: Callable[[Path], bool] | None = None
) -> None:
    """Show the records of a run, as they are written, until it ends; with `only_drawn`, those that a training shows."""
    async with aclosing(follow(folder, in_progress=in_progress)) as lines:
        async for line in lines:
            record = _parse_line(line) if not only_drawn or _is_drawn(line) else None
            if record is not None:
                screen.show(record)


def _is_drawn(line: bytes) -> bool:
    return MEASUREMENT not in line or (FIRST_RANK in line and any(name in line for name in DRAWN))


def _parse_line(line: bytes) -> Record | None:
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
