"""Events of sampling, in every run that samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event


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
