"""The series that a node reports, from the layout that its reader sent, and the values of a row in their units."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

from railbed.model.meters import METERS, MISSING, SeriesKey
from railbed.parsing.counters.lines import LayoutLine
from railbed.parsing.counters.names import SOURCES, Target

LARGEST = (1 << 63) - 1
PLAUSIBLE = 2
"""A counter that fell has wrapped only if it grew at most this many times as much as ever before."""


class _Column(NamedTuple):
    place: int
    factor: int


class Counted(NamedTuple):
    """A counter that wraps early."""

    value: int
    """As if it were wider."""
    most: int
    """The most by which it grew between two samples without falling."""


class Layout:
    """Series of a device, and where their values are in a row."""

    def __init__(self, device: str, line: LayoutLine) -> None:
        columns: dict[SeriesKey, tuple[_Column, Target]] = {}
        for index, (source, port, name) in enumerate(line.columns()):
            counter, _, peer = name.partition("@") if source == "tcp_peer" else (name, "", "")
            target = SOURCES.get(source, {}).get(counter)
            if target is None or (source == "tcp_peer" and not _is_address(peer)):
                continue
            meter = METERS[target.meter]
            part = port if source == "gpu" else peer or target.part
            series = SeriesKey(device, target.meter, port if meter.per_port else "", part)
            columns.setdefault(series, (_Column(index, target.factor), target))
        self.width = line.width
        self.series = tuple(columns)
        self._columns = [column for column, _ in columns.values()]
        self._narrow = [
            (place, target.bits)
            for place, (series, (_, target)) in enumerate(columns.items())
            if target.bits < METERS[series.meter].bits
        ]

    def values(self, row: Sequence[int | None]) -> list[int]:
        """Return the value of each series; MISSING if the row has none, or one that no counter can have."""
        values = []
        for place, factor in self._columns:
            value = row[place]
            scaled = MISSING if value is None else value * factor
            values.append(scaled if 0 <= scaled <= LARGEST else MISSING)
        return values

    def widen(self, values: list[int], last: dict[SeriesKey, Counted]) -> None:
        """Continue counters that wrap at their own width, as 32 bits of mlx5, at the width of their meter.

        `last` has the state of each, also from before a gap, and is updated.
        """
        for place, bits in self._narrow:
            if values[place] != MISSING:
                series = self.series[place]
                last[series] = _continued(last.get(series), values[place], 1 << bits)
                values[place] = last[series].value


def _is_address(text: str) -> bool:
    try:
        return str(IPv4Address(text)) == text
    except ValueError:
        return False


def _continued(before: Counted | None, value: int, width: int) -> Counted:
    """Return the state of a counter whose next value is this one, which wraps at `width`."""
    if before is None:
        return Counted(value, 0)
    growth = (value - before.value) % width
    if value >= before.value % width:
        return Counted(before.value + growth, max(before.most, growth))
    # It wrapped, or it was reset. A reset taken for a wrap would look like billions of errors, whereas a wrap taken for
    # a reset is one sample without a rate.
    is_wrap = growth <= (PLAUSIBLE * before.most or width // 4)
    return Counted(before.value + growth if is_wrap else value, before.most)
