"""A series that is in several tables, since the list of a device's series changed, as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from itertools import pairwise
from math import inf

import numpy as np

from railbed.store.series.data import Samples, by_time
from railbed.store.series.table import Table


class Order(Enum):
    """What shows the order in which the samples of several tables were taken."""

    TIMES = auto()
    """Only their times: each table counted its own minutes, as those of another writer do."""
    NUMBERS = auto()
    """The numbers of their minutes, whose times grow."""
    NUMBERS_ALONE = auto()
    """The numbers of their minutes; a clock was set back, so that times overlap."""


def order_of(tables: Sequence[Table]) -> Order:
    """Return what shows the order of samples in these tables of a device."""
    spans = sorted(span for table in tables for span in table.spans())
    if any(span.number == following.number for span, following in pairwise(spans)):
        return Order.TIMES
    is_set_back = any(span.last > following.first for span, following in pairwise(spans))
    return Order.NUMBERS_ALONE if is_set_back else Order.NUMBERS


def joined(places: Sequence[tuple[Table, int]], order: Order, start: float, end: float) -> Samples:
    """Return the samples of columns of several tables between two times, in the order in which they were taken.

    After a clock was set back, samples outside that were taken in between are returned as well.
    """
    window = (-inf, inf) if order is Order.NUMBERS_ALONE else (start, end)
    parts = [table.samples(column, *window) for table, column in places]
    times, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if order is Order.TIMES:
        return Samples(*by_time(times, values))
    place = np.argsort(np.concatenate([table.numbers(*window) for table, _ in places]), kind="stable")
    inside = np.flatnonzero((times[place] >= start) & (times[place] <= end))
    if order is Order.NUMBERS_ALONE:
        place = place[inside[0] : inside[-1] + 1] if len(inside) else place[:0]
    return Samples(times[place], values[place])
