"""How to undo what a run changed: a line for each change in the run's folder, written before the change is made.

Which runs changed a device, and with what outcome, is in their records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_core import to_json

from railbed.errors import UsageError, os_reason
from railbed.model.events import ChangeStarted, DeviceChanged
from railbed.model.events.runs import Outcome
from railbed.model.fix import Fix
from railbed.model.private import for_us_alone
from railbed.model.record import Change, Finding
from railbed.model.regular import read_regular
from railbed.store.proof import Unprovable, is_proven, prove, upcoming
from railbed.store.records import read_records
from railbed.store.run import RECORDS, RunSummary, list_runs, read_run_in, runs_folder
from railbed.store.undo_steps import invalid_part

FILE = "undo.jsonl"
SUBJECT = "undo"
_FIX: TypeAdapter[Fix] = TypeAdapter(Fix)


def save_undo(run: Path, undo: Fix) -> None:
    """Add the fix that undoes a change, and return when it is on disk."""
    line = to_json(undo) + b"\n"
    with open(run / FILE, "a+b", opener=for_us_alone) as file:
        file.seek(0)
        content = file.read() + line
        _prove(run, upcoming(SUBJECT), content)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    _prove(run, SUBJECT, content)


def _prove(run: Path, subject: str, content: bytes) -> None:
    with suppress(Unprovable, OSError):  # without a proof, the undo needs an answer to its question
        if about := read_run_in(run):
            prove(run, about.id, {subject: content})


def read_undo(run: Path, *, own: bool = False) -> list[Fix]:
    """Return the fixes that undo a run, the last change first; an incomplete line is of a change that was not made.

    Raise UsageError if a fix cannot be executed as it was saved; with `own`, also without a proof that all of them were
    saved by this user, on this machine.
    """
    try:
        content = read_regular(run / FILE)
        lines = content.split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(run, os_reason(error)) from error
    fixes = [_read_fix(run, number, line) for number, line in reversed(list(enumerate(lines, 1)))]
    # The bytes that are executed: the file may be replaced at any moment.
    if own and not is_proven(run, SUBJECT, content):
        raise UsageError(
            f"{run.name} has no proof that its {FILE} was saved by you on this machine",
            hint="leave out --yes, and read what would be executed",
        )
    return fixes


def _read_fix(run: Path, number: int, line: bytes) -> Fix:
    try:
        fix = _FIX.validate_json(line)
    except ValueError as error:
        raise _unreadable(run, f"line {number} is damaged") from error
    if reason := invalid_part(fix):
        raise _unreadable(run, f"line {number}: {reason}")
    return fix


def _unreadable(run: Path, reason: str) -> UsageError:
    return UsageError(
        f"the undo of {run.name} is unreadable ({run / FILE}: {reason})",
        hint=f"{run / RECORDS} lists what it changed: restore that by hand, then `railbed runs --clean {run.name}`",
    )


def unreadable_undos(cluster: str, parent: Path | None = None) -> list[UsageError]:
    """Return why some runs of configure on a cluster cannot be undone; `parent` is the folder of all runs."""
    reasons = []
    for _, folder in _runs_on(cluster, parent):
        try:
            read_undo(folder)
        except UsageError as error:
            reasons.append(error)
    return reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChange:
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


def read_attempts(run: Path) -> dict[str, DeviceChange]:
    """Return what a run did to each device that it began to change."""
    try:
        saved = {fix.device for fix in read_undo(run)}
    except UsageError:
        saved = None  # it may have changed any device
    attempts: dict[str, DeviceChange] = {}
    for record in read_records(run, ChangeStarted, DeviceChanged):
        if isinstance(record, ChangeStarted | DeviceChanged):
            attempts[record.subject] = DeviceChange(
                device=record.subject,
                outcome=record.outcome if isinstance(record, DeviceChanged) else None,
                undoes=record.run,
                saved=saved is None or record.subject in saved,
            )
    return attempts


def read_results(run: Path) -> tuple[list[Change], list[Finding]]:
    """Return the changes of a run, and what it found once it had changed devices."""
    changes: list[Change] = []
    findings: list[Finding] = []
    changed = False
    for record in read_records(run, DeviceChanged, Finding, Change):
        changed = changed or isinstance(record, DeviceChanged)
        if isinstance(record, Change):
            changes.append(record)
        elif changed and isinstance(record, Finding):
            findings.append(record)
    return changes, findings


def unfinished_changes(cluster: str, parent: Path | None = None) -> dict[str, Unfinished]:
    """Return the devices of a cluster that may be half-changed, each with the change that was cut short."""
    unfinished: dict[str, Unfinished] = {}
    settled: set[str] = set()
    undone: set[tuple[str, str]] = set()
    for run, attempts in _changes_of(cluster, parent):
        for device, attempt in attempts.items():
            # An undo that was cut short is settled by the undo of the same run that came after it.
            if device in settled or (device, attempt.undoes or run.id) in undone:
                continue
            if attempt.outcome == "undone" and attempt.undoes:
                undone.add((device, attempt.undoes))
            elif attempt.outcome == "applied":
                settled.add(device)
            elif attempt.outcome == "unknown" or (attempt.outcome is None and (attempt.saved or attempt.undoes)):
                settled.add(device)
                unfinished[device] = Unfinished(run=attempt.undoes or run.id, undoing=attempt.undoes is not None)
    return unfinished


def devices_to_undo(cluster: str, name: str, parent: Path | None = None) -> tuple[list[DeviceChange], dict[str, str]]:
    """Return the attempts of a run that are not undone, and the devices that a later run has changed, by run."""
    undone: set[tuple[str, str]] = set()
    later: dict[str, str] = {}
    for run, attempts in _changes_of(cluster, parent):
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


def _changes_of(cluster: str, parent: Path | None) -> Iterator[tuple[RunSummary, dict[str, DeviceChange]]]:
    """Yield the runs of configure on a cluster that have ended, the newest first, with what each did."""
    for run, folder in _runs_on(cluster, parent):
        yield run, read_attempts(folder)


def _runs_on(cluster: str, parent: Path | None) -> Iterator[tuple[RunSummary, Path]]:
    """Yield the runs of configure on a cluster that have ended, the newest first, with their folders."""
    parent = parent or runs_folder()
    for run in list_runs(parent):
        if run.verb == "configure" and run.cluster == cluster and run.status != "running":
            yield run, parent / run.id
