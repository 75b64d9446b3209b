"""Bytes and packets over time, in buckets of equal width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.views import Numbers

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axis:
    """Buckets of time, in nanoseconds."""

    start: int
    width: int
    count: int

    @classmethod
    def over(cls, start: int, stop: int, *, width: int = 1, most: int = 400) -> Axis:
        """Return buckets from a start to a stop, at least so wide, and at most so many."""
        span = max(1, stop - start + 1)
        width = min(max(width, -(-span // most)), span)
        return cls(start, width, -(-span // width))

    def totals(self, times: Numbers, weights: NDArray[Any] | None = None) -> Floats:
        """Return the number of times in each bucket, or the sum of their weights."""
        if weights is not None and weights.dtype != np.float64:
            weights = weights.astype(np.float64)
        place = (times - self.start) // self.width
        inside = (place >= 0) & (place < self.count)
        if not inside.all():
            place, weights = place[inside], None if weights is None else weights[inside]
        return np.bincount(place, weights=weights, minlength=self.count).astype(np.float64)

    def time(self, bucket: int) -> int:
        """Return when a bucket begins."""
        return self.start + bucket * self.width
