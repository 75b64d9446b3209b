"""How to undo what a run changed: a line for each change in the run's folder, written before the change is made.

Which runs changed a device, and with what outcome, is in their records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_core import to_json

from railbed.model.events import ChangeStarted, DeviceChanged
from railbed.model.events.configure import Outcome
from railbed.model.fix import Fix
from railbed.model.private import for_us_alone
from railbed.store.records import read_record
from railbed.store.run import RunSummary, list_runs, record_lines, runs_folder

FILE = "undo.jsonl"
_FIX: TypeAdapter[Fix] = TypeAdapter(Fix)


def save_undo(run: Path, undo: Fix) -> None:
    """Add the fix that undoes a change, and return when it is on disk."""
    with open(run / FILE, "ab", opener=for_us_alone) as file:
        file.write(to_json(undo) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_undo(run: Path) -> list[Fix]:
    """Return the fixes that undo a run, the last change first; an incomplete line is of a change that was not made."""
    try:
        lines = (run / FILE).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [_FIX.validate_json(line) for line in reversed(lines)]


def read_outcomes(run: Path) -> dict[str, DeviceChanged | None]:
    """Return the outcome on each device that a run began to change; None if the run was cut short.

    A device whose undo was not saved yet was not changed, and is left out.
    """
    outcomes: dict[str, DeviceChanged | None] = {}
    for line in record_lines(run):
        if b"change" not in line:
            continue
        try:
            record = read_record(line)
        except ValueError:
            continue
        if isinstance(record, ChangeStarted):
            outcomes[record.subject] = None
        elif isinstance(record, DeviceChanged):
            outcomes[record.subject] = record
    saved = {fix.device for fix in read_undo(run)}
    return {device: changed for device, changed in outcomes.items() if changed or device in saved}


def unfinished_changes(cluster: str) -> dict[str, str]:
    """Return the devices of a cluster whose latest change was cut short or may be half-made, with the run's name."""
    latest: dict[str, tuple[str, Outcome | None]] = {}
    for run, outcomes in _changes_of(cluster):
        for device, changed in outcomes.items():
            latest.setdefault(device, (run.id, changed.outcome if changed else None))
    return {device: run for device, (run, outcome) in latest.items() if outcome in (None, "unknown")}


def devices_to_undo(cluster: str, name: str) -> tuple[list[str], dict[str, str]]:
    """Return the devices on which a run's changes are in effect, and those that a later run has changed, by run."""
    undone: set[str] = set()
    later: dict[str, str] = {}
    for run, outcomes in _changes_of(cluster):
        changed = {device: event for device, event in outcomes.items() if _is_in_effect(event)}
        if run.id == name:
            return [device for device in changed if device not in undone], later
        undone |= {device for device, event in outcomes.items() if event and event.run == name}
        later |= {device: run.id for device, event in changed.items() if not (event and event.run)}
        # What a later run changed and another one undid is no longer in the way.
        for event in filter(None, outcomes.values()):
            later = {device: other for device, other in later.items() if (device, other) != (event.subject, event.run)}
    return [], later


def _is_in_effect(event: DeviceChanged | None) -> bool:
    return event is None or event.outcome in ("applied", "unknown")


def _changes_of(cluster: str) -> Iterator[tuple[RunSummary, dict[str, DeviceChanged | None]]]:
    """Yield the finished runs of configure on a cluster, the newest first, with the outcome on each device."""
    for run in list_runs():
        if run.verb == "configure" and run.cluster == cluster and run.status != "running":
            yield run, read_outcomes(runs_folder() / run.id)
