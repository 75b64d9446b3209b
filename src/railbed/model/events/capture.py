"""Events of capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureMethod(Event):
    """How the packets of a port are recorded: by the kernel, by the card's sniffer, or by a flag of its driver.

    `method` is `kernel`, `card` or `card_flag`; `source` is the interface or RDMA device that tcpdump captures on,
    `cost` what it costs the traffic meanwhile.
    """

    name: ClassVar = "capture_method"
    method: str
    source: str
    cost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStarted(Event):
    """All nodes record packets, from here on; `snap_length` is how many bytes of each packet at most."""

    name: ClassVar = "capture_started"
    ports: list[str]
    snap_length: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCaptured(Event):
    """The recording of a port was fetched into the run.

    `captured` counts the packets that tcpdump recorded, `dropped` those that the kernel or the interface lost because
    tcpdump was too slow; both are missing if tcpdump was killed. `file` is relative to the run's folder. A `reason`
    says why it ended before it was stopped.
    """

    name: ClassVar = "port_captured"
    file: str
    bytes: int
    captured: int | None = None
    dropped: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRead(Event):
    """A recording was read: `packets` of RDMA and pause frames, of `total` in the file.

    `overwritten` counts the oldest packets that the ring of files had no room for; `truncated` means that the last
    packet is incomplete. `began` and `ended` are the times of the first and last packet, on the clock of whoever
    recorded them.
    """

    name: ClassVar = "recording_read"
    file: str
    packets: int
    total: int
    bytes: int
    snap_length: int
    truncated: bool = False
    dropped: int | None = None
    overwritten: int | None = None
    began: float | None = None
    ended: float | None = None
