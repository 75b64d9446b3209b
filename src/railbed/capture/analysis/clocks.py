"""The clocks of recordings, aligned by the packets that two of them contain.

A packet arrives after it was sent: the difference of the two times is the offset of the clocks plus the delay. The
smallest differences of each window, in both directions, lie on two lines; the offset is half their difference, and
half their sum bounds its error, since a path may take longer one way than the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.views import Numbers

Floats = NDArray[np.float64]
WINDOWS = 64
LEAST_IN_WINDOW = 16
DRIFT_AFTER = 500_000_000
"""Nanoseconds that recordings must have in common before a drift is fitted."""
MOST_DRIFT = 5e-4
TRIMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How a recording's clock relates to the reference; nanoseconds."""

    offset: float = 0.0
    """How far it is ahead, at `at`."""
    drift: float = 0.0
    """By how much it runs ahead further, per nanosecond."""
    at: int = 0
    error: float | None = 0.0
    """By how much the offset may be wrong; None if the recording shares no packets with the reference."""
    packets: int = 0
    """Packets that the alignment is based on; 0 for the reference."""

    def align(self, times: Numbers) -> Numbers:
        """Return times of this clock as those of the reference."""
        if not self.offset and not self.drift:
            return times
        shift: Numbers = np.rint(self.offset + self.drift * (times - self.at)).astype(np.int64)
        return times - shift


@dataclass(frozen=True, slots=True)
class Differences:
    """Packets of one direction between two recordings: when they were sent, and how much later they arrived."""

    sent: Numbers
    later: Numbers


@dataclass(frozen=True, slots=True)
class ClockLink:
    """The clock of the second recording compared with that of the first."""

    offset: float
    drift: float
    at: int
    error: float
    packets: int

    @property
    def reverse(self) -> ClockLink:
        """The clock of the first compared with that of the second."""
        return ClockLink(-self.offset, -self.drift, self.at + round(self.offset), self.error, self.packets)


def compare_clocks(forward: Differences, backward: Differences) -> ClockLink | None:
    """Return how far the second clock is ahead; None without packets in both directions."""
    if not len(forward.sent) or not len(backward.sent):
        return None
    at = int(min(forward.sent.min(), backward.sent.min()))
    ahead, behind = _lowest(forward, at), _lowest(backward, at)
    drift = _drift(ahead, behind)
    there, residual_there = _bound(ahead, drift)
    back, residual_back = _bound(behind, -drift)
    error = abs(there + back) / 2 + max(residual_there, residual_back)
    return ClockLink((there - back) / 2, drift, at, error, len(forward.sent) + len(backward.sent))


def _lowest(differences: Differences, at: int) -> tuple[Floats, Floats]:
    """Return the smallest difference in each window of time, and when it was."""
    since = differences.sent - at
    windows = max(1, min(WINDOWS, len(since) // LEAST_IN_WINDOW))
    width = max(1, -(-int(since.max() + 1) // windows))
    window = since // width
    order = np.lexsort((differences.later, window))
    first = np.flatnonzero(np.concatenate(([True], np.diff(window[order]) > 0)))
    chosen = order[first]
    return since[chosen].astype(np.float64), differences.later[chosen].astype(np.float64)


def _drift(ahead: tuple[Floats, Floats], behind: tuple[Floats, Floats]) -> float:
    """Return the common slope of both lines, without the windows in which every packet waited."""
    times = np.concatenate((ahead[0], behind[0]))
    if len(ahead[0]) < 4 or len(behind[0]) < 4 or np.ptp(times) < DRIFT_AFTER:
        return 0.0
    sign = np.repeat([1.0, -1.0], [len(ahead[0]), len(behind[0])])
    values = np.concatenate((ahead[1] - ahead[1].min(), behind[1] - behind[1].min()))
    design = np.column_stack((sign * times, sign > 0, sign < 0)).astype(np.float64)
    usable = np.ones(len(times), np.bool_)
    slope = 0.0
    for _ in range(TRIMS):
        solution = np.linalg.lstsq(design[usable], values[usable], rcond=None)[0]
        slope = float(solution[0])
        residual = values - design @ solution
        usable = residual <= np.median(residual) + 2 * np.median(np.abs(residual - np.median(residual)))
    return slope if abs(slope) <= MOST_DRIFT else 0.0


def _bound(lowest: tuple[Floats, Floats], drift: float) -> tuple[float, float]:
    """Return the line's height below all points, and how far the better half of the points lies above it."""
    above = lowest[1] - drift * lowest[0]
    return float(above.min()), float(np.median(above) - above.min()) if drift else 0.0


def align(count: int, links: Mapping[tuple[int, int], ClockLink], same: Sequence[tuple[int, int]] = ()) -> list[Clock]:
    """Return the clock of each recording, compared with the one with the most links, by the smallest error.

    `same` lists recordings of one device, which share a clock.
    """
    edges: dict[int, list[tuple[int, ClockLink]]] = {index: [] for index in range(count)}
    for (first, second), link in links.items():
        edges[first].append((second, link))
        edges[second].append((first, link.reverse))
    for first, second in same:
        edges[first].append((second, ClockLink(0.0, 0.0, 0, 0.0, 0)))
        edges[second].append((first, ClockLink(0.0, 0.0, 0, 0.0, 0)))
    clocks: list[Clock] = [Clock(error=None)] * count
    if not count:
        return clocks
    reference = max(range(count), key=lambda index: (len(edges[index]), -index))
    clocks[reference] = Clock()
    queue: list[tuple[float, int, int]] = [(0.0, reference, reference)]
    done: set[int] = set()
    while queue:
        _, index, _ = heapq.heappop(queue)
        if index in done:
            continue
        done.add(index)
        for other, link in edges[index]:
            reached = _through(clocks[index], link)
            known = clocks[other].error
            if other not in done and (known is None or (reached.error or 0.0) < known):
                clocks[other] = reached
                heapq.heappush(queue, (reached.error or 0.0, other, index))
    return clocks


def _through(clock: Clock, link: ClockLink) -> Clock:
    """Return the clock at the other end of a link."""
    at = link.at or clock.at
    return Clock(
        offset=clock.offset + clock.drift * (at - clock.at) + link.offset,
        drift=clock.drift + link.drift,
        at=at + round(link.offset),
        error=(clock.error or 0.0) + link.error,
        packets=link.packets or clock.packets,
    )
