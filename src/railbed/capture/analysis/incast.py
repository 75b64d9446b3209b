"""Moments in which several senders load one receiver at once, above the speed of its link if that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railbed.capture.analysis.rates import Axis
from railbed.capture.analysis.views import Numbers

WIDTH = 1_000_000
"""Nanoseconds in which packets count as simultaneous."""
MOST_BUCKETS = 200_000
MOST_CELLS = 20_000_000
"""Senders times buckets, eight bytes each."""
LEAST_SHARE = 0.1
"""Of the bytes in a moment: senders below it do not count."""
LEAST_SENDERS = 2


@dataclass(frozen=True, slots=True)
class Load:
    """What one address sends to a receiver: times of the reference clock, and bytes on the wire."""

    sender: str
    times: Numbers
    lengths: Numbers
    row: int
    """The first packet, in the recording that it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incast:
    """When several senders loaded one receiver."""

    receiver: str
    senders: tuple[str, ...]
    """At the worst moment, the strongest first."""
    moments: int
    """Buckets of time with several senders."""
    overloaded: int | None
    """Of these, those in which they sent more than the link carries; None if its speed is unknown."""
    width: int
    worst: int
    """When the most bytes came: nanoseconds of the reference clock."""
    first: int
    last: int
    """Of the overloaded moments, or of all if the speed is unknown."""
    peak: float
    """The rate at the worst moment, in bytes per second."""
    share: float | None
    """Of the link's speed, at the worst moment."""


def incast_of(receiver: str, loads: Sequence[Load], speed: float | None, clock_error: float) -> Incast | None:
    """Return when several senders loaded a receiver, whose link has so many Gb/s; None if they never did."""
    senders = sorted({load.sender for load in loads})
    if len(senders) < LEAST_SENDERS:
        return None
    start = min(int(load.times.min()) for load in loads)
    stop = max(int(load.times.max()) for load in loads)
    axis = Axis.over(
        start, stop, width=max(WIDTH, int(4 * clock_error)), most=min(MOST_BUCKETS, MOST_CELLS // len(senders))
    )
    total = np.zeros((len(senders), axis.count))
    for load in loads:
        total[senders.index(load.sender)] += axis.totals(load.times, load.lengths)
    together = total.sum(axis=0)
    active = (total > LEAST_SHARE * together).sum(axis=0)
    moments = active >= LEAST_SENDERS
    if not moments.any():
        return None
    limit = None if speed is None else speed * 1e9 / 8 * axis.width / 1e9
    above = moments if limit is None else moments & (together > limit)
    worst = int(np.argmax(np.where(moments, together, -1)))
    where = np.flatnonzero(above if above.any() else moments)
    strongest = np.argsort(-total[:, worst], kind="stable")
    return Incast(
        receiver=receiver,
        senders=tuple(senders[index] for index in strongest if total[index, worst] > LEAST_SHARE * together[worst]),
        moments=int(moments.sum()),
        overloaded=None if limit is None else int(above.sum()),
        width=axis.width,
        worst=axis.time(worst),
        first=axis.time(int(where[0])),
        last=axis.time(int(where[-1])) + axis.width,
        peak=float(together[worst]) * 1e9 / axis.width,
        share=None if limit is None else float(together[worst]) / limit,
    )
