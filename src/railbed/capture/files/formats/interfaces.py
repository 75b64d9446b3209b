"""The interfaces of a pcapng section: link types, and how their times are to be read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.formats.blocks import options
from railbed.capture.files.links import SUPPORTED, Link
from railbed.capture.files.window import Order

RESOLUTION, OFFSET, DROPPED = 9, 14, 5
"""Codes of options: if_tsresol, if_tsoffset, isb_ifdrop."""
MOST_SECONDS = 9_200_000_000
"""What fits into 64 bits as nanoseconds; times beyond it are put there."""
ENDLESS = (1 << 64) - 1
NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Clock:
    """How to turn ticks into nanoseconds: seconds by `unit`, and the rest as (rest >> shift) * factor // divisor."""

    unit: int = 10**6
    shift: int = 0
    factor: int = 1000
    divisor: int = 1
    offset: int = 0
    """Seconds to add."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface."""

    number: int
    """Of the link type, as in the file."""
    snap_length: int = 0
    clock: Clock = Clock()

    @property
    def link(self) -> Link:
        """Return how its packets begin."""
        return SUPPORTED.get(self.number, Link.UNSUPPORTED)


def read_interface(block: bytes, order: Order) -> Interface:
    """Return the interface that a block describes."""
    number, _, snap_length = struct.unpack_from(f"{order}HHI", block, 8)
    resolution, offset = 6, 0
    for code, value in options(block[16:-4], order):
        if code == RESOLUTION and len(value) == 1:
            resolution = value[0]
        if code == OFFSET and len(value) == 8:
            offset = struct.unpack(f"{order}q", value)[0]
    return Interface(number, snap_length, make_clock(resolution, offset))


def make_clock(resolution: int, offset: int) -> Clock:
    """Return the clock for if_tsresol: a negative power of ten, or of two with the highest bit set."""
    offset = max(-MOST_SECONDS, min(MOST_SECONDS, offset))
    power = resolution & 127
    if resolution & 128:
        if power > 63:
            return Clock(ENDLESS, 0, 1, ENDLESS, offset)
        return Clock(1 << power, max(0, power - 32), NANOSECONDS, 1 << min(power, 32), offset)
    if power > 19:
        return Clock(ENDLESS, 0, 1, ENDLESS, offset)
    return Clock(10**power, 0, 10 ** max(0, 9 - power), 10 ** max(0, power - 9), offset)


def nanoseconds(ticks: NDArray[np.uint64], clocks: list[Clock], index: NDArray[Any]) -> NDArray[np.int64]:
    """Return times since the epoch; `index` names the clock of each."""
    if len(set(clocks)) == 1:  # numbers instead of columns make it much faster
        clocks, index = clocks[:1], np.zeros(1, np.int64)
    names = ("unit", "shift", "factor", "divisor")
    table = np.array([[getattr(clock, name) for name in names] for clock in clocks], np.uint64)
    unit, shift, factor, divisor = (table[:, place] for place in range(len(names)))
    offset = np.array([clock.offset for clock in clocks])
    if len(clocks) > 1:
        unit, shift, factor, divisor, offset = (values[index] for values in (unit, shift, factor, divisor, offset))
    seconds = ticks // unit
    rest = ((ticks - seconds * unit) >> shift) * factor // divisor
    limited = np.minimum(seconds, np.uint64(MOST_SECONDS)).astype(np.int64) + offset
    time: NDArray[np.int64] = np.clip(limited, -MOST_SECONDS, MOST_SECONDS) * NANOSECONDS + rest.astype(np.int64)
    return time
