"""A reading: the facts of a probe, or why they are unknown. Unknown is never zero and never "fine"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from railbed.model.output import Output
from railbed.model.probe import Probe

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
