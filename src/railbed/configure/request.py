"""What configure was asked to do, and the callbacks it needs: to ask the user, to save, to take the lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

from railbed.configure.wheels import Wheels
from railbed.model.events import DeviceChanged
from railbed.model.fix import Fix
from railbed.parsing.nexus.switch_lock import Holder
from railbed.rules.rule import Rule
from railbed.store.undo import Unfinished

Mode = Literal["show", "render", "apply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What configure leaves to the command line: side effects, and what earlier runs left unfinished."""

    confirm: Callable[[str], Awaitable[bool]]
    """Ask the user once whether to proceed."""
    save: Callable[[Fix], None]
    """Save the fix that undoes a change, before the change is made."""
    exclusive: Callable[[], AbstractContextManager[None]]
    """Hold the locks of the cluster's devices; raises UsageError if another run on this machine holds one."""
    run_name: Callable[[], str]
    """The name of this run."""
    write: Callable[[Mapping[str, str]], str]
    """Write files by name, and return the folder."""
    unfinished: Mapping[str, Unfinished] = field(default_factory=dict)
    """Devices that may be half-changed, each with the change that was cut short."""
    unreadable: Sequence[str] = ()
    """Why earlier runs cannot be undone."""
    has_ended: Callable[[Holder], bool] = lambda _: False
    """Whether the holder of a switch's lock is known to have ended, so that its lock can be taken over."""
    note_late: Callable[[DeviceChanged], None] = lambda _: None
    """Note an outcome that cannot be yielded any more, because the run is being interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureRequest:
    """What to change."""

    checks: Sequence[Rule[Any]]
    callbacks: Callbacks
    mode: Mode = "show"
    named: Collection[str] = ()
    """Rules that the user chose: their fixes are applied even if they need a decision."""
    only: Collection[str] = ()
    """Devices to change; all if empty."""
    wheels: Wheels | None = None
    """What Python environments are made of, in place of a package index."""
