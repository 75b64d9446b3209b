"""A reading: the facts of a probe, or why they are unknown. Unknown is never zero and never "fine".

What one command printed on one device, before it is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from railbed.model.probe import Probe

MAX_OUTPUT_BYTES = 4 * 2**20
"""Commands that print more than this are cut off; no probe needs as much."""
MAX_LINE_BYTES = 64 * 1024
"""Twice the longest line known: `ss` listing a thousand processes that share a socket. JSON is exempt."""
COMPLAINT_CHARS = 400
LATE = "did not finish within"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Raw bytes of one command, and when it was sent and ended."""

    device: str
    key: str
    """Name of the probe, or another label, under which the output is stored."""
    command: str
    stdout: bytes
    stderr: bytes = b""
    exit: int | None
    """Exit status; None if the command did not end."""
    sent: float
    """Our clock just before the command was sent (seconds since the epoch)."""
    received: float
    """Our clock when the end of the output was read."""
    truncated: bool = False
    """The device printed more than is stored."""
    failure: str = ""
    """Why the command did not end, in words."""

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 become the replacement character."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The first line on standard error, where most tools explain a failure; shortened if it is long."""
        lines = self.stderr.lstrip()[: 4 * COMPLAINT_CHARS].decode("utf-8", "replace").strip().splitlines()
        return lines[0].strip()[:COMPLAINT_CHARS] if lines else ""

    @property
    def ran_late(self) -> bool:
        """Whether the command did not end in time."""
        return self.failure.startswith(LATE)

    def excess(self, *, one_line: bool = False) -> str:
        """Return why it is too long to parse, as the end of a sentence; with `one_line`, lines have no limit."""
        if self.truncated or len(self.stdout) > MAX_OUTPUT_BYTES:
            return f"printed more than {MAX_OUTPUT_BYTES // 2**20} MiB"
        if not one_line and max(map(len, self.stdout.split(b"\n"))) > MAX_LINE_BYTES:
            return f"printed a line of more than {MAX_LINE_BYTES // 1024} KiB"
        return ""

    @property
    def trouble(self) -> str:
        """Why it failed: the best description available."""
        return self.complaint or self.failure or f"exit {self.exit}"


F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Generic[F_co]):
    """Facts, and the output they were read from."""

    facts: F_co
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Why there are no facts, and how to get them."""

    reason: str
    remedy: str = ""
    evidence: str = ""
    device_failed: bool = False
    """The whole device failed: one finding reports it, not one per rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFailure:
    """Why a device could not be read, or not completely."""

    reason: str
    remedy: str = ""
    connected: bool = False
    """The login succeeded, then the device stopped answering."""
    timed_out: bool = False
    """It did not answer in time, which may be due to load."""
    excuse: str = ""
    """Why that proves nothing about the device: this machine was overloaded itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """Everything read from one device; a probe that is read twice has two readings."""

    device: str
    readings: Mapping[str, tuple[Known[object] | Unknown, ...]] = field(default_factory=dict)
    failure: DeviceFailure | None = None

    def read(self, probe: Probe[F]) -> Known[F] | Unknown:
        """Return the first reading of a probe."""
        return self._reading(probe, 0)

    def again(self, probe: Probe[F]) -> Known[F] | Unknown:
        """Return the second reading of a probe that is read twice."""
        return self._reading(probe, 1)

    def _reading(self, probe: Probe[F], index: int) -> Known[F] | Unknown:
        readings = self.readings.get(probe.name, ())
        if index < len(readings):
            return cast("Known[F] | Unknown", readings[index])
        if self.failure:
            return Unknown(reason=self.failure.reason, remedy=self.failure.remedy, device_failed=True)
        return Unknown(reason=f"probe {probe.name} was not read")
