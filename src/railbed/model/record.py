"""Records: all that a verb can say. Each is flat as JSON and names its kind; names and fields, once shipped, stay."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from railbed.model.fix import Fix


class Verdict(StrEnum):
    """How a finding ends; the order is from worst to best."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    WARN = "warn"
    SKIPPED = "skipped"
    OK = "ok"

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return list(Verdict).index(self)


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
    """What people can do about it; the text of `fix` where there is one."""
    fix: Fix | None = None
    """The change of the device that repairs it, where railbed knows one."""
    evidence: str = ""
    essential: bool = False
    """Training depends on what was judged."""
    time: float = field(default_factory=time.time)
    kind: Literal["finding"] = "finding"


OF_STATE = frozenset({"validation_loss"})
"""Measurements of the state after a step: ranks that go on from there make them before any step of their own."""


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
    """One difference between what is and what would be."""

    subject: str
    action: Literal["add", "remove", "set"]
    before: str = ""
    after: str = ""
    time: float = field(default_factory=time.time)
    kind: Literal["change"] = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth keeping that is neither a judgement nor a number: progress, a device read, a file to write."""

    name: str
    subject: str = ""
    message: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    time: float = field(default_factory=time.time)
    kind: Literal["event"] = "event"


Record = Finding | Measurement | Change | Event
