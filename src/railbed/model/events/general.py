"""Events of every verb, and the cluster that discover found.

Events of sampling, in every run that samples.

Events of ranks on nodes: train, and the collectives of bench.

What a verb is doing, as an event: every verb reports progress in this form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Event):
    """A device is sampled, or is sampled with other series than before.

    The times of its samples are those of the control machine. `clock_offset` is how far the device's own clock is
    ahead of it, `clock_error` by how much sample times may be wrong, both in seconds; switches have neither.
    """

    name: ClassVar = "sampling"
    interval: float
    series: int
    clock_offset: float | None = None
    clock_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingGap(Event):
    """No samples arrive from a device; railbed keeps trying. `last` is the time of its last sample, if any."""

    name: ClassVar = "sampling_gap"
    why: str
    last: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingResumed(Event):
    """Samples of a device arrive again, after `seconds` without any."""

    name: ClassVar = "sampling_resumed"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTraffic(Event):
    """A TCP connection of a program that is not part of the sampled training has carried a megabyte.

    `local` and `peer` are its ends, address and port. Without a `process`, the program belongs to a user whose
    processes the sampler may not see. Reported once for each program and peer.
    """

    name: ClassVar = "foreign_traffic"
    local: str
    peer: str
    program: str = ""
    process: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped(Event):
    """The clock of a device was set by `seconds`, or that of the control machine, whose subject is `control`.

    Times of samples follow the clock of the control machine, before and after.
    """

    name: ClassVar = "clock_jumped"
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDone(Event):
    """Every rank of a generation is done."""

    name: ClassVar = "done"
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUp(Event):
    """The agent on a node answers."""

    name: ClassVar = "node_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(Event):
    """A node stopped answering, never answered, or was not ready in time."""

    name: ClassVar = "node_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCut(Event):
    """The other nodes cannot reach this one over the rail."""

    name: ClassVar = "node_cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOut(Event):
    """A node is excluded for the rest of the run."""

    name: ClassVar = "node_out"


def progress(
    message: str,
    *,
    subject: str = "",
    detail: str = "",
    done: int | None = None,
    total: int | None = None,
    usual: float | None = None,
    left: float | None = None,
    waiting: Collection[str] = (),
) -> Progress:
    """Return the event for the start of an activity or, if the message is the same as before, for its progress.

    `usual` is the number of seconds this activity usually takes, `left` the estimate for the verb as a whole.
    `waiting` lists what has not answered yet; a later event with such a subject removes it from the list.
    """
    return Progress(
        subject=subject,
        message=message,
        detail=detail or None,
        done=done,
        total=total,
        usual=usual,
        left=left,
        waiting=list(waiting) or None,
    )
