"""Records: everything that a verb emits. As JSON a record has its `kind`; names and fields, once released, stay.

`events/` lists every event, `meters.py` every measurement.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal

from railbed.model.fix import Fix, Interruption


class Verdict(StrEnum):
    """The verdict of a finding, from worst to best."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    WARN = "warn"
    SKIPPED = "skipped"
    OK = "ok"

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return list(Verdict).index(self)


Certainty = Literal["certain", "likely", "possible"]
"""`certain`: a device counted exactly this; `likely`: several observations agree; `possible`: there are other
explanations."""

CHECK_SECONDS = 60.0
"""The nodes are checked within this time after a generation ended early, even if the check of another is under way."""
WRONG = (Verdict.FAIL, Verdict.WARN)
"""Verdicts about something that is not as expected, and that a fix may repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's judgement of one subject."""

    check: str
    subject: str
    """`node`, `node/port`, a rail, or `cluster`."""
    verdict: Verdict
    expected: str
    observed: str
    why: str
    """Why it matters to training."""
    remedy: str = ""
    """What people can do about it; the text of `fix`, if there is one."""
    fix: Fix | None = None
    """The change of the device that repairs it, if there is a known one."""
    evidence: str = ""
    essential: bool = False
    """Training depends on it."""
    since: float | None = None
    """When it began, if it is about a time: seconds since the epoch."""
    until: float | None = None
    """When it was over; None if it was not, or if there is no `since`."""
    certainty: Certainty | None = None
    """How certain a verdict is that explains what happened."""
    generation: int | None = None
    """The generation of ranks whose early end made railbed check the nodes again; None for all other findings."""
    before: str | None = None
    """With `generation`: what the check before the launch observed; None if it did not judge this."""
    time: float = field(default_factory=time.time)
    kind: Literal["finding"] = "finding"

    def is_of_restart(self, generation: int | None, time: float) -> bool:
        """Whether it was judged because this generation ended early at this time.

        A job that Slurm starts again numbers its generations anew, in the same records.
        """
        return self.generation is not None and self.generation == generation and 0 <= self.time - time <= CHECK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number with its unit; identity is in the labels, never in the name."""

    name: str
    value: float
    unit: str
    labels: Mapping[str, str | int] = field(default_factory=dict)
    source: Literal["measured", "simulated"] = "measured"
    time: float = field(default_factory=time.time)
    kind: Literal["measurement"] = "measurement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between the current and the wanted state."""

    subject: str
    action: Literal["add", "remove", "set"]
    before: str = ""
    after: str = ""
    check: str = ""
    """The rule whose fix it is."""
    apply: tuple[str, ...] = ()
    """The commands or lines that make it, in order."""
    undo: tuple[str, ...] = ()
    """Those that restore what was there; files and switches are restored from copies instead."""
    interrupts: bool = False
    """Traffic of the device may stop for a moment."""
    losing: tuple[str, ...] = ()
    """Of a switch: ports that lose packets for a moment; `all ports` for every port, also those not in the file."""
    flapping: tuple[str, ...] = ()
    """Of a switch: ports whose link goes down and comes up again."""
    left_out: str = ""
    """Why `configure --apply` does not make it."""
    time: float = field(default_factory=time.time)
    kind: Literal["change"] = "change"

    @property
    def interruption(self) -> Interruption:
        """What it interrupts on a switch."""
        return Interruption(losing=self.losing, flapping=self.flapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened: neither a judgement nor a number. `events/` has a class for each kind of event."""

    name: ClassVar[str]
    subject: str = ""
    message: str = ""
    time: float = field(default_factory=time.time)

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the fields that are specific to this kind of event, without those that are None."""
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _OF_EVERY_EVENT}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    @classmethod
    def fields_from(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields for data that was read."""
        return {name: value for name, value in data.items() if name not in _OF_EVERY_EVENT}


_OF_EVERY_EVENT = frozenset({"subject", "message", "time"})

Record = Finding | Measurement | Change | Event


def _plain(value: object) -> object:
    """Return dataclasses inside a value as dictionaries."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
