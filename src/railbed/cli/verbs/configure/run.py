"""Does the work of `railbed configure`: chooses rules, devices and run, then shows, renders, applies or undoes."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from railbed.api.exits import DEVICE, FOUND
from railbed.api.running import Take
from railbed.api.tally import Conclusion, Tally
from railbed.catalog import choose
from railbed.check.judge import all_checks, usual_checks
from railbed.cli.chosen import chosen_run
from railbed.cli.options import Options
from railbed.cli.run.perform import perform
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.site import given_cluster
from railbed.cli.verbs.configure.confirm import ask
from railbed.configure.request import Callbacks, ConfigureRequest, Mode
from railbed.configure.run import checks_with_fixes, configure
from railbed.configure.undo import UndoRequest, undo
from railbed.configure.undo_plan import UndoTerms
from railbed.configure.wheels import Wheels
from railbed.errors import UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, SlotStep
from railbed.model.record import Record
from railbed.model.text.amount import plural
from railbed.parsing.nexus.switch_lock import Holder
from railbed.store import RunKind, is_own_folder, list_runs, runs_folder, write_atomically
from railbed.store.lock import only_one
from railbed.store.undo import (
    devices_to_undo,
    read_results,
    read_undo,
    save_undo,
    unfinished_changes,
    unreadable_undos,
)
from railbed.transport.base import targets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of the verb."""

    apply: bool
    yes: bool
    undo: str | None
    only: Sequence[str]
    rules: Sequence[str]
    render: Path | None
    wheels: Path | None = None
    overwrite: bool = False

    @property
    def mode(self) -> Mode:
        """What to do with the changes."""
        return "apply" if self.apply else "render" if self.render else "show"


def configure_cluster(file: Path | None, options: Options, wanted: Wanted) -> int:
    """Show, apply or undo changes, and return the exit code."""
    _validate(options, wanted)
    cluster = given_cluster(file, options.replay)
    if cluster is None:
        raise UsageError("configure needs a cluster file", hint="`railbed discover` writes one")
    screen = _screen(options, cluster)
    targets = targets_of(cluster, changing=True)
    addresses = [f"{target.host or target.name}:{target.login.port or 22}" for target in targets]
    journal = Journal(cluster.name, addresses)
    callbacks = _callbacks(wanted, journal, screen)
    if wanted.undo is not None:
        undo_request = _undo_request(cluster, wanted, callbacks)

        def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
            return undo(cluster, fleet, undo_request)

    else:
        request = _request(cluster, wanted, callbacks)

        def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
            return configure(cluster, fleet, request)

    return perform(
        "configure",
        cluster,
        options,
        work,
        decide=lambda tally: journal.conclude(tally, changing=wanted.apply or wanted.undo is not None),
        screen=screen,
        beside=journal.beside,
        closing=journal.closing,
        changing=True,
    )


@dataclass(slots=True)
class Journal:
    """Collects what a run's records say about its changes: for the exit code, and for runs that are cut short."""

    cluster: str
    addresses: Sequence[str] = ()
    """Of all devices of the cluster."""
    folder: Path = Path()
    planned: events.ChangesPlanned | None = None
    outcomes: dict[str, events.DeviceChanged | None] = field(default_factory=dict)
    late: dict[str, events.DeviceChanged] = field(default_factory=dict)
    """Outcomes that became known while the run was being interrupted."""

    @contextmanager
    def beside(self, folder: Path) -> Iterator[Take]:
        """Note the run's folder, and return the consumer of its records."""
        self.folder = folder
        yield self.take

    def take(self, record: Record) -> None:
        """Note what a record says about changes."""
        match record:
            case events.ChangesPlanned():
                self.planned = record
            case events.ChangeStarted(subject=device):
                self.outcomes[device] = None
            case events.DeviceChanged(subject=device):
                self.outcomes[device] = record

    def save(self, undo: Fix) -> None:
        """Save how to undo a change."""
        save_undo(self.folder, undo)

    def note_late(self, outcome: events.DeviceChanged) -> None:
        """Note an outcome for `closing`."""
        self.late[outcome.subject] = outcome

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the locks of all devices of the cluster."""
        return only_one("configure", self.addresses, self.folder)

    def closing(self) -> Iterator[Record]:
        """Yield the outcome on devices that were being changed; unless it is known, they have been restored by now."""
        for device, outcome in list(self.outcomes.items()):
            if outcome is None:
                yield self.late.get(device) or events.DeviceChanged(
                    subject=device, message=f"{device} was restored: configure was interrupted", outcome="restored"
                )

    def conclude(self, tally: Tally, *, changing: bool) -> Conclusion:
        """Decide the exit code."""
        if tally.devices and not tally.answered:
            return Conclusion(DEVICE, "no device answered", announced=True)
        bad = [
            device for device, event in self.outcomes.items() if not event or event.outcome not in ("applied", "undone")
        ]
        if bad:
            return Conclusion(FOUND, f"not changed: {', '.join(bad)}", announced=True)
        if tally.failed:
            return Conclusion(FOUND, f"{plural(tally.failed, 'finding')} failed", announced=True)
        if self.planned and self.planned.changes and not self.outcomes:
            reason = "nothing was changed" if changing else "there are changes to make"
            return Conclusion(FOUND, reason, announced=True)
        if self.planned and self.planned.left_out:
            left_out = plural(self.planned.left_out, "change was", "changes were")
            return Conclusion(FOUND, f"{left_out} left out", announced=True)
        return Conclusion()


def _validate(options: Options, wanted: Wanted) -> None:
    """Refuse options that do not go together."""
    modes = {"--apply": wanted.apply, "--undo": wanted.undo is not None, "--render": wanted.render is not None}
    named = [option for option, chosen in modes.items() if chosen]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} do not go together", hint="give one of them")
    if wanted.wheels and (wanted.undo is not None or wanted.render):
        raise UsageError("--wheels goes only with --apply", hint="a script cannot send them, and an undo needs none")
    if wanted.overwrite and wanted.undo is None:
        raise UsageError("--overwrite goes only with --undo", hint="--apply sets every wrong value, whoever set it")
    if wanted.rules and wanted.undo is not None:
        raise UsageError("--rule and --undo do not go together", hint="an undo restores all that a run changed")
    changing = wanted.apply or wanted.undo is not None
    if changing and options.replay:
        raise UsageError("a recording cannot be changed", hint="leave out --replay")
    if changing and not wanted.yes and (options.json or not sys.stdin.isatty()):
        raise UsageError("there is no terminal to ask on", hint="give --yes to make the changes without asking")


def _request(cluster: Cluster, wanted: Wanted, callbacks: Callbacks) -> ConfigureRequest:
    rules = [
        choose(all_checks(), name, kind="rule", listing="docs/reference/checks.md lists them")
        for name in _split(wanted.rules)
    ]
    return ConfigureRequest(
        checks=rules or checks_with_fixes(usual_checks()),
        callbacks=callbacks,
        mode=wanted.mode,
        named={rule.name for rule in rules},
        only=_devices(cluster, wanted),
        wheels=Wheels.from_folder(wanted.wheels) if wanted.wheels else None,
    )


def _devices(cluster: Cluster, wanted: Wanted) -> frozenset[str]:
    names = frozenset(_split(wanted.only))
    known = {*cluster.nodes, *cluster.switches}
    if strangers := sorted(names - known):
        raise UsageError(
            f"--only {strangers[0]}: the cluster file has no such device", hint=f"it has {', '.join(known)}"
        )
    return names


def _split(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in value.split(",") if name]


def _undo_request(cluster: Cluster, wanted: Wanted, callbacks: Callbacks) -> UndoRequest:
    """Return what to undo: a fix for each device."""
    only = _devices(cluster, wanted)
    folder = chosen_run(wanted.undo, _undoable(cluster, only))
    fixes, later = _fixes_of(cluster, folder, only, own=wanted.yes)
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
        terms=UndoTerms(run=folder.name, overwrite=wanted.overwrite),
        fixes=list(fixes.values()),
        changes=changes,
        results=results,
        callbacks=callbacks,
    )


def _undoable(cluster: Cluster, only: frozenset[str]) -> RunKind:
    """Return the runs that changed something on these devices that is still in effect."""
    return RunKind(
        noun=f"configure run on {cluster.name} with changes to undo",
        fits=lambda run, folder: run.verb == "configure" and bool(_fixes_of(cluster, folder, only)[0]),
        hint="`railbed configure --apply` makes changes; each run that did can be undone once",
    )


def _fixes_of(
    cluster: Cluster, folder: Path, only: frozenset[str], *, own: bool = False
) -> tuple[dict[str, Fix], dict[str, str]]:
    """Return the fixes that undo a run, by device, and the devices that a later run has changed, by run."""
    attempts, later = devices_to_undo(cluster.name, folder.name)
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


def _callbacks(wanted: Wanted, journal: Journal, screen: Screen) -> Callbacks:
    async def confirm(question: str) -> bool:
        return wanted.yes or await ask(question, screen.line.clear)

    def write(files: Mapping[str, str]) -> str:
        assert wanted.render is not None
        return _write_files(wanted.render, files)

    return Callbacks(
        confirm=confirm,
        save=journal.save,
        exclusive=journal.exclusive,
        run_name=lambda: journal.folder.name,
        write=write,
        unfinished=unfinished_changes(journal.cluster),
        unreadable=[f"{error.message}; {error.hint}" for error in unreadable_undos(journal.cluster)],
        has_ended=holder_has_ended,
        note_late=journal.note_late,
    )


def holder_has_ended(holder: Holder) -> bool:
    """Whether the holder of a switch's lock is known to have ended: a configure of this user here, with its run."""
    own = [run for run in list_runs() if run.verb == "configure" and is_own_folder(runs_folder() / run.id)]
    runs = [run for run in own if run.process and run.process.pid == holder.pid]
    known = holder.is_here and holder.purpose != "experiment" and bool(runs)
    return known and runs[0].status != "running"


def _write_files(folder: Path, files: Mapping[str, str]) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode(), mode=0o700 if name.endswith(".sh") else 0o600)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {os_reason(error)}") from error
    return str(folder)


def _screen(options: Options, cluster: Cluster) -> Screen:
    if options.json:
        return JsonScreen()
    # Imported here because drawing is slow to load.
    from railbed.cli.screens.configure import ConfigureScreen

    return ConfigureScreen(cluster=cluster)
