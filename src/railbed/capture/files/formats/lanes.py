"""Find where records begin.

A record says only where the next one is, so finding them is sequential. numpy walks many lanes at once instead: each
begins somewhere in the window, at the first place from which a chain of records looks plausible. Plausible is not
certain, since a payload may be a capture file itself. Therefore the seams are verified: the records of a lane count
only if the walk before it ends exactly where the lane begins. Otherwise a sequential walk repairs the seam.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
LANES = 2048
PROBED_RECORDS = 64
RECORDS_PER_LANE = 100
FEWEST_RECORDS = 4000
"""Below that, a sequential walk is as fast."""
CANDIDATES = 128
"""Places that are tried at once for each lane."""
SEARCHED_RECORDS = 8
"""A lane that finds no beginning within so many usual records is left out."""
FEWEST_LANES = 100
"""Fewer are left to the sequential walk: a step costs about the same for a few lanes and for a thousand."""
LINKS = 4
"""Records in a row that must look plausible for a lane to begin."""


class RecordChain(Protocol):
    """Records that follow each other in a window."""

    alignment: int
    """Records begin at multiples of it, counted from any record."""

    def walk(self, position: int, until: int, most: int) -> tuple[list[int], int]:
        """Return where the next records begin, at most so many and before `until`, and where the walk ended.

        It ends before a record that is incomplete, or that only a sequential reader can judge.
        """

    def following(self, positions: Positions) -> Positions:
        """Return where the records after these begin, or -1 for those at which `walk` would end."""

    def candidates(self, starts: Positions, count: int) -> NDArray[np.bool_]:
        """Return which of so many places from each start might be the beginning of a record, by a cheap test."""

    def plausible(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which positions look like the beginning of a record."""


def walk_records(chain: RecordChain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
    """Return where the records begin that are complete before the end, and where the walk ended.

    Use `alone` to walk sequentially, whatever the number of records.
    """
    first, reached = chain.walk(position, end, PROBED_RECORDS)
    if len(first) < PROBED_RECORDS:
        return np.array(first, np.int64), reached
    usual = -(-(reached - position) // len(first))
    expected = (end - reached) // usual
    if alone or expected < FEWEST_RECORDS:
        rest, reached = chain.walk(reached, end, end)
        return np.array(first + rest, np.int64), reached
    starts = _synchronise(chain, reached, end, min(LANES, expected // RECORDS_PER_LANE), usual)
    parts, reached = _verify(chain, _walk(chain, starts, end), end)
    return np.concatenate([np.array(first, np.int64), *parts]), reached


def _synchronise(chain: RecordChain, position: int, end: int, count: int, usual: int) -> Positions:
    """Return where lanes begin: the first at the position itself, the others where a chain looks plausible."""
    span = (end - position) // count // chain.alignment * chain.alignment
    starts = position + span * np.arange(count, dtype=np.int64)
    synchronised = np.full(count, -1, np.int64)
    synchronised[0] = position
    searching = np.arange(1, count)
    stride = CANDIDATES * chain.alignment
    for begin in range(0, min(span, SEARCHED_RECORDS * usual + stride), stride):
        rows, places = np.nonzero(chain.candidates(starts[searching] + begin, CANDIDATES))
        positions = starts[searching[rows]] + begin + places * chain.alignment
        linked = _links(chain, positions)
        lanes, first = np.unique(searching[rows[linked]], return_index=True)
        synchronised[lanes] = positions[linked][first]
        searching = searching[synchronised[searching] < 0]
        if not len(searching):
            break
    return np.unique(synchronised[synchronised >= 0])


def _links(chain: RecordChain, candidates: Positions) -> NDArray[np.bool_]:
    """Return from which candidates a chain of plausible records begins."""
    linked = np.zeros(len(candidates), bool)
    index = np.flatnonzero(chain.plausible(candidates))
    positions = candidates[index]
    for _ in range(LINKS - 1):
        positions = chain.following(positions)
        valid = positions >= 0
        index, positions = index[valid], positions[valid]
        valid = chain.plausible(positions)
        index, positions = index[valid], positions[valid]
    linked[index] = True
    return linked


@dataclass(frozen=True, slots=True)
class _Lanes:
    """What the lanes walked over."""

    starts: Positions
    arrived: Positions
    """Where each ended: at the start of the next, if both are right."""
    records: Positions
    """The records of all lanes, one lane after another."""
    ends: Positions
    """Where the records of each lane end."""


def _walk(chain: RecordChain, starts: Positions, end: int) -> _Lanes:
    """Step all lanes until each arrives at the next."""
    stops = np.append(starts[1:], end)
    lanes = np.arange(len(starts), dtype=np.int16)
    current, arrived = starts, starts.copy()
    steps: list[Positions] = []
    walkers: list[NDArray[np.int16]] = []
    while len(lanes) >= FEWEST_LANES:
        following = chain.following(current)
        valid = following >= 0
        if not valid.all():
            arrived[lanes[~valid]] = current[~valid]
            lanes, current, following, stops = lanes[valid], current[valid], following[valid], stops[valid]
        steps.append(current)
        walkers.append(lanes)
        going = following < stops
        current = following
        if not going.all():
            arrived[lanes] = following
            lanes, current, stops = lanes[going], following[going], stops[going]
    arrived[lanes] = current
    if not steps:
        return _Lanes(starts, arrived, np.empty(0, np.int64), np.zeros(len(starts), np.int64))
    counts = np.bincount(np.concatenate(walkers), minlength=len(starts))
    ends = np.cumsum(counts)
    records = np.empty(ends[-1], np.int64)
    begins = ends - counts
    for step, (positions, walker) in enumerate(zip(steps, walkers, strict=True)):
        records[begins[walker] + step] = positions
    return _Lanes(starts, arrived, records, ends)


def _verify(chain: RecordChain, lanes: _Lanes, end: int) -> tuple[list[Positions], int]:
    """Return the records of the lanes that begin where the walk before them ended, and walk where none does."""
    parts: list[Positions] = []
    position, lane, count = int(lanes.starts[0]), 0, len(lanes.starts)
    broken = np.append(np.flatnonzero(lanes.arrived[:-1] != lanes.starts[1:]), count - 1)
    while True:
        lane += int(np.searchsorted(lanes.starts[lane:], position))
        if lane < count and lanes.starts[lane] == position:
            last = int(broken[np.searchsorted(broken, lane)])
            begin = int(lanes.ends[lane - 1]) if lane else 0
            parts.append(lanes.records[begin : lanes.ends[last]])
            position, lane = int(lanes.arrived[last]), last + 1
        until = int(lanes.starts[lane]) if lane < count else end
        if position < until or lane == count:
            repaired, position = chain.walk(position, until, end)
            parts.append(np.array(repaired, np.int64))
            if position < until or until == end:
                return parts, position
