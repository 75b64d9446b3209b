"""The series that a node reports, from the layout that its reader sent, and the values of a row in their units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from railbed.model.series import METERS, MISSING, Series
from railbed.parsing.counters.lines import LayoutLine
from railbed.parsing.counters.names import SOURCES, Target

LARGEST = (1 << 63) - 1


class _Column(NamedTuple):
    place: int
    factor: int


class Layout:
    """Series of a device, and where their values are in a row."""

    def __init__(self, device: str, line: LayoutLine) -> None:
        columns: dict[Series, tuple[_Column, Target]] = {}
        for index, (source, port, name) in enumerate(line.columns()):
            target = SOURCES.get(source, {}).get(name)
            if target is None:
                continue
            meter = METERS[target.meter]
            part = port if source == "gpu" else target.part
            series = Series(device, target.meter, port if meter.per_port else "", part)
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

    def widen(self, values: list[int], last: dict[Series, int]) -> None:
        """Continue counters that wrap at their own width, as 32 bits of mlx5, at the width of their meter.

        `last` has the last value of each, also from before a gap, and is updated.
        """
        for place, bits in self._narrow:
            if values[place] == MISSING:
                continue
            series = self.series[place]
            before = last.get(series, values[place])
            growth = (values[place] - before) % (1 << bits)
            # More than half the range is not growth: the counter was reset.
            values[place] = last[series] = before + growth if growth < 1 << (bits - 1) else values[place]
