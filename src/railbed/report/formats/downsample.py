"""Fewer points, the same picture: the lowest and the highest point of each interval of a line."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

MOST = 2000


def downsample(values: Sequence[float], most: int = MOST) -> list[int]:
    """Return the indices of at most `most` points to draw: the ends, the extremes, and a point of each gap."""
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = (most - 2) // 3
    positions = {0, count - 1}
    for number in range(stretches):
        stretch = range(number * count // stretches, (number + 1) * count // stretches)
        finite = [index for index in stretch if isfinite(values[index])]
        if finite:
            positions |= {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)}
        if len(finite) < len(stretch):
            positions.add(next(index for index in stretch if not isfinite(values[index])))
    return sorted(positions)
