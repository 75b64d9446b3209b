"""Events about the BMCs of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event

BMC_PREFIX = "its BMC "
"""Begins the message of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcReport(Event):
    """What the BMC of a node reported when the node was lost, or why it did not answer; `power` is None if unknown."""

    name: ClassVar = "bmc"
    power: str | None = None
    answers: bool = True
