"""What configure was asked to do, and what it needs of the command line: to ask, to save, to be the only one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

from railbed.check.rule import Check
from railbed.model.fix import Fix

Mode = Literal["show", "render", "apply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What a verb leaves to the command line: effects, and what earlier runs left."""

    confirm: Callable[[str], Awaitable[bool]]
    """Ask the user once whether to proceed."""
    save: Callable[[Fix], None]
    """Save the fix that undoes a change, before the change is made."""
    exclusive: Callable[[], AbstractContextManager[None]]
    """Be the only run that changes this cluster; raises UsageError where another one does."""
    run_name: Callable[[], str]
    """The name of this run."""
    write: Callable[[Mapping[str, str]], str]
    """Write files by name, and return the folder."""
    unfinished: Mapping[str, str] = field(default_factory=dict)
    """Devices whose latest change was cut short, with its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureRequest:
    """What to change."""

    checks: Sequence[Check[Any]]
    callbacks: Callbacks
    mode: Mode = "show"
    named: Collection[str] = ()
    """Rules that the user named: their fixes are applied even if they need a decision."""
    only: Collection[str] = ()
    """Devices to change; all if empty."""
