"""How to undo what a run changed: a line for each change in the run's folder, written before the change is made.

Which runs changed a device, and with what outcome, is in their records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a run did to a device, or began to do."""

    device: str
    outcome: Outcome | None = None
    """None if the run was cut short."""
    undoes: str | None = None
    """The run that was being undone."""
    saved: bool = True
    """The undo was saved. Before that, nothing is changed; a switch may be locked."""

    @property
    def is_in_effect(self) -> bool:
        """Whether its changes may be in effect, as a whole or in part."""
        return self.outcome in ("applied", "unknown") or (self.outcome is None and self.saved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A change that was cut short, or whose outcome is uncertain."""

    run: str
    """The run whose changes were being made or undone: its undo restores the device."""
    undoing: bool = False


def read_attempts(run: Path) -> dict[str, Attempt]:
    """Return what a run did to each device that it began to change."""
    saved = {fix.device for fix in read_undo(run)}
    attempts: dict[str, Attempt] = {}
    for line in record_lines(run):
        if b"change" not in line:
            continue
        try:
            record = read_record(line)
        except ValueError:
            continue
        match record:
            case ChangeStarted(subject=device):
                attempts[device] = Attempt(device=device, undoes=record.run, saved=device in saved)
            case DeviceChanged(subject=device):
                attempts[device] = Attempt(
                    device=device, outcome=record.outcome, undoes=record.run, saved=device in saved
                )
    return attempts


def unfinished_changes(cluster: str) -> dict[str, Unfinished]:
    """Return the devices of a cluster that may be half-changed, each with the change that was cut short."""
    unfinished: dict[str, Unfinished] = {}
    settled: set[str] = set()
    undone: set[tuple[str, str]] = set()
    for run, attempts in _changes_of(cluster):
        for device, attempt in attempts.items():
            if device in settled or (device, run.id) in undone:
                continue
            if attempt.outcome == "undone" and attempt.undoes:
                undone.add((device, attempt.undoes))
            elif attempt.outcome == "applied":
                settled.add(device)
            elif attempt.outcome == "unknown" or (attempt.outcome is None and (attempt.saved or attempt.undoes)):
                settled.add(device)
                unfinished[device] = Unfinished(run=attempt.undoes or run.id, undoing=attempt.undoes is not None)
    return unfinished


def devices_to_undo(cluster: str, name: str) -> tuple[list[Attempt], dict[str, str]]:
    """Return the attempts of a run that are not undone, and the devices that a later run has changed, by run."""
    undone: set[tuple[str, str]] = set()
    later: dict[str, str] = {}
    for run, attempts in _changes_of(cluster):
        left = [attempt for attempt in attempts.values() if (attempt.device, run.id) not in undone]
        if run.id == name:
            ended = ("undone", "restored", "refused")
            return [attempt for attempt in left if not attempt.undoes and attempt.outcome not in ended], later
        undone |= {
            (attempt.device, attempt.undoes) for attempt in left if attempt.outcome == "undone" and attempt.undoes
        }
        for attempt in left:
            if attempt.is_in_effect and attempt.undoes is None:
                later.setdefault(attempt.device, run.id)
    return [], later


def _changes_of(cluster: str) -> Iterator[tuple[RunSummary, dict[str, Attempt]]]:
    """Yield the runs of configure on a cluster that have ended, the newest first, with what each did."""
    for run in list_runs():
        if run.verb == "configure" and run.cluster == cluster and run.status != "running":
            yield run, read_attempts(runs_folder() / run.id)
