"""Events of every verb, and the cluster that discover found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """Something that users should read; the verb continues."""

    name: ClassVar = "notice"
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReported(Event):
    """The error that ends a verb, or that a rank reports."""

    name: ClassVar = "error"
    rank: int | None = None
    peer: bool | None = None
    """Another rank caused it: this one only lost its connection."""
    refused: bool | None = None
    """Another start would fail in the same way."""
    hint: str | None = None
    interference: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine(Event):
    """A line that a rank wrote to its standard output or standard error."""

    name: ClassVar = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """The start of an activity, named by the message, or the progress of the current one if the message is the same.

    `usual` is the number of seconds the activity usually takes, `left` the estimate for the verb as a whole. `waiting`
    lists what has not answered yet; a later event with such a subject removes it from the list.
    """

    name: ClassVar = "progress"
    detail: str | None = None
    done: int | None = None
    total: int | None = None
    usual: float | None = None
    left: float | None = None
    waiting: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingStarted(Event):
    """Devices are being read."""

    name: ClassVar = "reading"
    devices: int = 0
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRead(Event):
    """A device answered, or did not."""

    name: ClassVar = "device_read"
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBuilt(Event):
    """The cluster that discover found; the data is the cluster file."""

    name: ClassVar = "cluster"
    cluster: Mapping[str, Any]

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the cluster itself."""
        return self.cluster

    @classmethod
    def fields_from(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields for this data."""
        return {"cluster": data}
