"""The identity of a series, and the samples of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MISSING = -(1 << 63)
"""Stored in place of a value that a device did not report."""


class Series(NamedTuple):
    """The identity of a series."""

    device: str
    """A node or a switch, by its name in the cluster file."""
    meter: str
    port: str = ""
    """The interface of a node (also for its RDMA device), or the port of a switch."""
    part: str = ""
    """Number of the priority, queue, GPU or rank."""


class Sample(NamedTuple):
    """What a device reported at one time."""

    device: str
    time: float
    """Seconds since the epoch, on the clock of this machine."""
    layout: tuple[Series, ...]
    """The series of the values: the same object for every sample of a device, until its series change."""
    values: Sequence[int]
    """One for each series; MISSING where the device reported none."""
