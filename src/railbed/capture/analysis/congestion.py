"""Congestion: who causes it, and how senders react.

Several senders cause it if they load one receiver at once, above the speed of its link if that is known.

Senders react to notifications. Those that follow each other closely are one episode. The rate before is that of the
buckets before the first; it is compared with the lowest rate until some time after the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railbed.capture.analysis.traffic import Axis, Floats
from railbed.capture.analysis.views import Numbers, Rows

WIDTH = 1_000_000
"""Nanoseconds in which packets count as simultaneous."""
MOST_INCAST_BUCKETS = 200_000
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
        start, stop, width=max(WIDTH, int(4 * clock_error)), most=min(MOST_INCAST_BUCKETS, MOST_CELLS // len(senders))
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


PACKETS_PER_BUCKET = 16
MOST_REACTION_BUCKETS = 1 << 20
LEAST_BUCKET = 20_000
"""Nanoseconds: a card takes some microseconds to react."""
BEFORE = 4
"""Buckets that give the rate before an episode."""
PATIENCE = 32
"""Buckets after the last notification in which the sender may still slow down; a longer pause ends an episode."""
MOST_EPISODES = 1000
"""Episodes that are judged, spread over the recording."""
SLOWED, RECOVERED = 0.9, 0.9
"""Shares of the rate before: below, the sender slowed down; from there on, it has recovered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Notifications in a row, and what the sender did; rates in bytes per second, times in nanoseconds."""

    start: int
    stop: int
    notices: int
    before: float
    after: float
    """The lowest rate of BEFORE buckets in a row, after the first notification."""
    reacted_after: int | None
    """Until the rate was below SLOWED of that before; None if it never was."""
    recovered_after: int | None
    """From the last notification until the rate was RECOVERED; None if it was not, in this recording."""
    first_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """How a sender reacts to the notifications about a flow."""

    notices: int
    episodes: tuple[Episode, ...]
    """Those with a known rate before them."""
    unjudged: int
    """Notifications in episodes without a known rate before them."""
    bucket: int

    @property
    def slowed(self) -> int:
        """In how many episodes the sender slowed down."""
        return sum(episode.reacted_after is not None for episode in self.episodes)


def reaction_of(times: Numbers, lengths: Numbers, notices: Numbers, rows: Rows) -> Reaction:
    """Return the reaction of a sender that sent at these times to notifications at those times."""
    axis = _axis(times, notices)
    rates = axis.totals(times, lengths) * (1e9 / axis.width)
    quiet = np.diff(notices) > PATIENCE * axis.width
    starts = np.concatenate(([0], np.flatnonzero(quiet) + 1))
    stops = np.append(starts[1:], len(notices)) - 1
    episodes = []
    unjudged = 0
    ends_at = np.append(notices[starts[1:]], axis.time(axis.count))
    sample = np.linspace(0, len(starts) - 1, min(len(starts), MOST_EPISODES)).astype(np.intp)
    for first, last, until in zip(starts[sample], stops[sample], ends_at[sample], strict=True):
        episode = _episode(axis, rates, notices[first : last + 1], int(until), int(rows[first]))
        if episode is None:
            unjudged += int(last - first + 1)
        else:
            episodes.append(episode)
    return Reaction(notices=len(notices), episodes=tuple(episodes), unjudged=unjudged, bucket=axis.width)


def _axis(times: Numbers, notices: Numbers) -> Axis:
    spacing = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    start, stop = min(times[0], notices[0]), max(times[-1], notices[-1])
    width = max(LEAST_BUCKET, int(spacing * PACKETS_PER_BUCKET))
    return Axis.over(int(start), int(stop), width=width, most=MOST_REACTION_BUCKETS)


def _episode(axis: Axis, rates: Floats, notices: Numbers, until: int, row: int) -> Episode | None:
    first = int((notices[0] - axis.start) // axis.width)
    last = int((notices[-1] - axis.start) // axis.width)
    stop = min(int((until - axis.start) // axis.width), axis.count)
    before = rates[max(0, first - BEFORE) : first]
    after = _means(rates[first + 1 : min(stop, last + 1 + PATIENCE + BEFORE)])
    if len(before) < BEFORE or not before.all() or not len(after):
        return None
    usual = float(before.mean())
    slow = np.flatnonzero(after < SLOWED * usual)
    fast = np.flatnonzero(_means(rates[last + 1 : stop]) >= RECOVERED * usual)
    return Episode(
        start=int(notices[0]),
        stop=int(notices[-1]),
        notices=len(notices),
        before=usual,
        after=float(after.min()),
        reacted_after=int(axis.time(first + 1 + int(slow[0]) + 1) - notices[0]) if len(slow) else None,
        recovered_after=int(axis.time(last + 1 + int(fast[0])) - notices[-1]) if len(fast) and len(slow) else None,
        first_row=row,
    )


def _means(rates: Floats) -> Floats:
    """Return the means of BEFORE buckets in a row."""
    return np.convolve(rates, np.ones(BEFORE) / BEFORE, "valid") if len(rates) >= BEFORE else rates[:0]
