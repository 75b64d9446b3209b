"""What an undo takes back: the saved fixes of a run, of the devices that no later run has changed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from railbed.configure.apply import UndoRequest
from railbed.configure.request import Callbacks
from railbed.configure.undo_plan import UndoTerms
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, SlotStep
from railbed.store import RunKind
from railbed.store.undo import devices_to_undo, read_results, read_undo


def undo_request(
    cluster: Cluster,
    folder: Path,
    callbacks: Callbacks,
    *,
    runs: Path,
    only: Collection[str] = (),
    overwrite: bool = False,
    own: bool = False,
) -> UndoRequest:
    """Return what to undo of a run: a fix for each device; with `own`, only if this user provably saved them here."""
    fixes, later = _fixes_of(cluster, folder, only, runs, own=own)
    if not fixes:
        raise UsageError(f"{folder.name} has nothing to undo", hint="it changed nothing, or was already undone")
    for device, fix in fixes.items():
        _require_usable(cluster, fix, folder.name)
        if device in later:
            raise UsageError(
                f"{later[device]} changed {device} after {folder.name}",
                hint=f"undo that first: `railbed configure --undo {later[device]}`",
            )
    changes, results = read_results(folder)
    return UndoRequest(
        terms=UndoTerms(run=folder.name, overwrite=overwrite),
        fixes=list(fixes.values()),
        changes=changes,
        results=results,
        callbacks=callbacks,
    )


def undoable(cluster: Cluster, only: Collection[str], runs: Path) -> RunKind:
    """Return the runs that changed something on these devices that is still in effect."""
    return RunKind(
        noun=f"configure run on {cluster.name} with changes to undo",
        fits=lambda run, folder: run.verb == "configure" and bool(_fixes_of(cluster, folder, only, runs)[0]),
        hint="`railbed configure --apply` makes changes; each run that did can be undone once",
    )


def _fixes_of(
    cluster: Cluster, folder: Path, only: Collection[str], runs: Path, *, own: bool = False
) -> tuple[dict[str, Fix], dict[str, str]]:
    """Return the fixes that undo a run, by device, and the devices that a later run has changed, by run."""
    attempts, later = devices_to_undo(cluster.name, folder.name, runs)
    # The last fix that was saved for a device is the most exact.
    fixes = {fix.device: fix for fix in reversed(read_undo(folder, own=own))}
    # Before its undo is saved, a node is untouched; a switch may be locked.
    fixes |= {
        attempt.device: _unlock(attempt.device)
        for attempt in attempts
        if attempt.device in cluster.switches and not attempt.saved
    }
    devices = [attempt.device for attempt in attempts if attempt.device in fixes]
    return {device: fixes[device] for device in devices if not only or device in only}, later


def _require_usable(cluster: Cluster, fix: Fix, run: str) -> None:
    """Raise UsageError if the undo of a device cannot be that of this device."""
    if fix.device not in cluster.nodes and fix.device not in cluster.switches:
        raise UsageError(f"{run} changed {fix.device}, which the cluster file does not have", hint="use --only")
    kinds = (RunStep, FileStep) if fix.device in cluster.nodes else (SlotStep,)
    if not all(isinstance(step, kinds) for step in (*fix.apply, *fix.undo)):
        raise UsageError(
            f"{run} cannot be undone: its steps for {fix.device} are not those of this kind of device",
            hint="the cluster file has this device under another kind than when it was changed",
        )


def _unlock(switch: str) -> Fix:
    """Return the undo of a change that was cut short before anything but the lock was made."""
    return Fix(device=switch, apply=(), undo=(), persistence=Persistence.KEPT)
