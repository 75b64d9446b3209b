"""What a run of configure does to each device, saved as it happens: for its undo, its exit code, an interruption."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from railbed.configure.request import Callbacks
from railbed.errors import UsageError, os_reason
from railbed.model import events
from railbed.model.fix import Fix
from railbed.model.record import Record
from railbed.parsing.nexus.switch_lock import Holder
from railbed.store import is_own_folder, list_runs, runs_folder, write_atomically
from railbed.store.run_lock import only_one
from railbed.store.undo import save_undo, unfinished_changes, unreadable_undos


@dataclass(slots=True)
class ChangeJournal:
    """Collects what a run's records say about its changes: for the exit code, and for runs that are cut short."""

    cluster: str
    addresses: Sequence[str] = ()
    """Of all devices of the cluster."""
    folder: Path = Path()
    """Of the run, once it has one."""
    planned: events.ChangesPlanned | None = None
    outcomes: dict[str, events.DeviceChanged | None] = field(default_factory=dict)
    late: dict[str, events.DeviceChanged] = field(default_factory=dict)
    """Outcomes that became known while the run was being interrupted."""

    @contextmanager
    def beside(self, folder: Path) -> Iterator[Callable[[Record], None]]:
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

    @property
    def unchanged(self) -> list[str]:
        """Devices that were to be changed, and were not."""
        return [
            device for device, event in self.outcomes.items() if not event or event.outcome not in ("applied", "undone")
        ]

    def closing(self) -> Iterator[Record]:
        """Yield the outcome on devices that were being changed; unless it is known, they have been restored by now."""
        for device, outcome in list(self.outcomes.items()):
            if outcome is None:
                yield self.late.get(device) or events.DeviceChanged(
                    subject=device, message=f"{device} was restored: configure was interrupted", outcome="restored"
                )

    def callbacks(self, confirm: Callable[[str], Awaitable[bool]], render: Path | None, runs: Path) -> Callbacks:
        """Return what configure needs to know and to call; `runs` is the folder of all runs."""
        return Callbacks(
            confirm=confirm,
            save=self._save,
            exclusive=self._exclusive,
            run_name=lambda: self.folder.name,
            write=partial(_write_files, render),
            unfinished=unfinished_changes(self.cluster, runs),
            unreadable=[f"{error.message}; {error.hint}" for error in unreadable_undos(self.cluster, runs)],
            has_ended=partial(holder_has_ended, runs=runs),
            note_late=self._note_late,
        )

    def _save(self, undo: Fix) -> None:
        save_undo(self.folder, undo)

    def _note_late(self, outcome: events.DeviceChanged) -> None:
        self.late[outcome.subject] = outcome

    def _exclusive(self) -> AbstractContextManager[None]:
        """Hold the locks of all devices of the cluster."""
        return only_one("configure", self.addresses, self.folder)


def holder_has_ended(holder: Holder, runs: Path | None = None) -> bool:
    """Whether the holder of a switch's lock is known to have ended: a configure of this user here, with its run."""
    runs = runs or runs_folder()
    own = [run for run in list_runs(runs) if run.verb == "configure" and is_own_folder(runs / run.id)]
    same = [run for run in own if run.process and run.process.pid == holder.pid]
    known = holder.is_here and holder.purpose != "experiment" and bool(same)
    return known and same[0].status != "running"


def _write_files(folder: Path | None, files: Mapping[str, str]) -> str:
    assert folder is not None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text.encode(), mode=0o700 if name.endswith(".sh") else 0o600)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {os_reason(error)}") from error
    return str(folder)
