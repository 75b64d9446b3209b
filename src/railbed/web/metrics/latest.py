"""The newest values of every device, with counters that never wrap."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.model.meters import METERS, MISSING, Sample, SeriesKey

FULL_BITS = 64
PLAUSIBLE = 2


@dataclass(slots=True)
class DeviceValues:
    """The newest values of one device."""

    layout: tuple[SeriesKey, ...]
    values: Sequence[int]
    arrived: float
    """On the clock of `Latest`."""
    narrow: tuple[tuple[int, int], ...]
    """Position and width in bits of every counter that can wrap."""
    wrapped: dict[int, int] = field(default_factory=dict)
    """By position: what wraps have taken from a counter so far."""
    growth: dict[int, int] = field(default_factory=dict)
    """By position: the most that a counter that can wrap has grown between two samples."""


class Latest:
    """Takes samples and training measures; a device that has been silent for too long has no values."""

    def __init__(self, limits: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        """Every device, and how old its newest sample may be, in seconds."""
        self._clock = clock
        self._devices: dict[str, DeviceValues] = {}

    def take(self, sample: Sample) -> None:
        """Use a sample as the newest of its device."""
        now = self._clock()
        before = self._devices.get(sample.device)
        device = before
        if device is None or device.layout is not sample.layout:
            device = _move_values(before, sample.layout)
            self._devices[sample.device] = device
        if before is not None and self.is_up(sample.device):
            _unwrap(device, sample.values)
        else:
            device.wrapped.clear()
        device.values, device.arrived = sample.values, now

    def age(self, device: str) -> float | None:
        """Return the seconds since the newest sample of a device; None if there was none."""
        values = self._devices.get(device)
        return None if values is None else self._clock() - values.arrived

    def is_up(self, device: str) -> bool:
        """Whether the newest sample of a device is recent enough."""
        age = self.age(device)
        return age is not None and age <= self.limits[device]

    def current(self) -> Mapping[str, DeviceValues]:
        """Return the values of all devices that are up."""
        return {name: values for name, values in self._devices.items() if name in self.limits and self.is_up(name)}


def _move_values(before: DeviceValues | None, layout: tuple[SeriesKey, ...]) -> DeviceValues:
    """Return the values so far of a device with a new layout, of the series that it still has."""
    positions = {series: index for index, series in enumerate(layout)}
    device = DeviceValues(layout, [MISSING] * len(layout), -math.inf, tuple(_narrow(layout)))
    if before is None:
        return device
    values = list(device.values)
    for index, series in enumerate(before.layout):
        if (position := positions.get(series)) is not None:
            values[position] = before.values[index]
            for old, new in ((before.wrapped, device.wrapped), (before.growth, device.growth)):
                if index in old:
                    new[position] = old[index]
    device.values, device.arrived = values, before.arrived
    return device


def _narrow(layout: tuple[SeriesKey, ...]) -> Iterable[tuple[int, int]]:
    for index, series in enumerate(layout):
        meter = METERS[series.meter]
        if meter.kind == "counter" and meter.bits < FULL_BITS:
            yield index, meter.bits


def _unwrap(device: DeviceValues, values: Sequence[int]) -> None:
    """Count the wraps since the previous sample; after a reset a counter starts again, which Prometheus recognises."""
    for index, bits in device.narrow:
        before, after = device.values[index], values[index]
        if MISSING in (before, after):
            continue
        if after >= before:
            device.growth[index] = max(after - before, device.growth.get(index, 0))
        elif is_wrap(before, after, bits, device.growth.get(index, 0)):
            device.wrapped[index] = device.wrapped.get(index, 0) + (1 << bits)
        else:
            device.wrapped.pop(index, None)


def is_wrap(before: int, after: int, bits: int, growth: int) -> bool:
    """Whether a counter that became smaller went past its highest value, rather than being reset.

    It did if it would have grown by a plausible amount, compared with the most so far. In doubt it was reset: then a
    query misses what was counted before the wrap, whereas a reset taken for a wrap would look like billions of errors.
    """
    return before < 1 << bits and after + (1 << bits) - before <= PLAUSIBLE * growth
