"""Events of configure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from railbed.model.record import Event

Outcome = Literal["applied", "undone", "restored", "refused", "unknown"]
"""`applied` and `undone` succeeded. `restored`: it failed, and the device was restored. `refused`: nothing was done.
`unknown`: it failed, and so did restoring the device, or the connection broke before that was certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlanned(Event):
    """All changes have been listed; `devices` would be changed."""

    name: ClassVar = "changes_planned"
    devices: Sequence[str]
    changes: int
    left_out: int
    interrupts: Sequence[str] = ()
    """Devices whose traffic may stop for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStarted(Event):
    """A device is being changed. Without a `device_changed` after it, the change was cut short."""

    name: ClassVar = "change_started"
    run: str | None = None
    """The run that is being undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChanged(Event):
    """A device was changed, or not; the message is the reason."""

    name: ClassVar = "device_changed"
    outcome: Outcome
    run: str | None = None
    """The run that was undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeUnfinished(Event):
    """An earlier run was cut short while it changed this device; the message says how to proceed."""

    name: ClassVar = "change_unfinished"
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRendered(Event):
    """The changes are written as files, for people who apply them by hand."""

    name: ClassVar = "files_rendered"
    folder: str
    files: Sequence[str]
