"""Both ends of a flow: what was sent, what arrived, with which mark, and what was lost on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import Answers
from railbed.capture.analysis.ends.clocks import Clock, Differences
from railbed.capture.analysis.ends.match import Labels, aligned, in_time, once_in_both, other_labels, request_labels
from railbed.capture.analysis.marks import CE, ECT0, ECT1
from railbed.capture.analysis.views import Numbers, Rows, View
from railbed.capture.packets import Kind

Mask = NDArray[np.bool_]
TOLERANCE = 1000
"""Nanoseconds by which a packet may be faster than the fastest so far: clocks drift."""
NONE: Rows = np.zeros(0, np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Nanoseconds between the two recorders; as exact as their clocks are aligned."""

    shortest: int
    median: int
    p99: int
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkChanges:
    """How the marks of packets that arrived changed on the way."""

    ecn: Mapping[str, int]
    """`ect0 → ce` and the like."""
    dscp: Mapping[str, int]
    """`26 → 0` and the like."""
    changed: Rows
    """Packets of the second recording whose DSCP changed."""
    congested: Rows
    """Packets of the second recording that were marked as congested on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """A flow between two recorders, in the time that both recorded."""

    sent: int
    arrived: int
    lost: Rows
    """Packets of the first recording that did not arrive: sent again, or counted by a recorder without drops."""
    uncaptured: int
    """Packets that the second recorder missed: they were acknowledged, and not sent again."""
    unresolved: int
    """Packets that did not arrive, and nothing shows whether they were lost."""
    unsent: int
    """Packets that arrived and that the first recorder missed."""
    notices_sent: int
    notices_arrived: int
    marks: MarkChanges
    delay: Delay | None


@dataclass(frozen=True, slots=True)
class _Matched:
    """Packets of one kind in both recordings; positions in `sent` and `arrived`."""

    sent: Labels
    arrived: Labels
    left: Rows
    right: Rows


def differences(sent: View, arrived: View) -> Differences:
    """Return how much later packets arrived that occur exactly once in both recordings."""
    pairs = [(request_labels(sent), request_labels(arrived)), (other_labels(sent)[0], other_labels(arrived)[0])]
    times: list[Numbers] = []
    later: list[Numbers] = []
    for first, second in pairs:
        left, right = once_in_both(first, aligned(first, second, 0.0))
        times.append(first.time[left])
        later.append(second.time[right] - first.time[left])
    return Differences(np.concatenate(times), np.concatenate(later))


def join(sent: View, arrived: View, clocks: tuple[Clock, Clock], answers: Answers | None) -> Journey:
    """Return what became of the packets that one recording shows, in another."""
    groups = zip(
        (request_labels(sent), *other_labels(sent)), (request_labels(arrived), *other_labels(arrived)), strict=True
    )
    matched = [_match(first, second, clocks) for first, second in groups]
    window, later = _windows(sent, arrived, clocks, matched)
    missing = [_unmatched(part.sent, part.left, window) for part in matched]
    lost, uncaptured, unresolved = _judge_requests(arrived, matched[0].sent, missing[0], answers)
    surely = arrived.recording.dropped == 0
    others = [part.sent.rows[gone] for part, gone in zip(matched[1:], missing[1:], strict=True)]
    notices, notices_arrived = _notices(sent, clocks[0], window), _notices(arrived, clocks[1], later)
    left = np.concatenate([part.sent.rows[part.left] for part in matched])
    right = np.concatenate([part.arrived.rows[part.right] for part in matched])
    return Journey(
        sent=len(left) + sum(len(gone) for gone in missing),
        arrived=len(left),
        lost=np.concatenate((lost, *(others if surely else ()))),
        uncaptured=uncaptured,
        unresolved=unresolved + (0 if surely else sum(len(rows) for rows in others)),
        unsent=sum(len(_unmatched(part.arrived, part.right, later)) for part in matched),
        notices_sent=notices,
        notices_arrived=min(notices, notices_arrived),
        delay=_delay(matched),
        marks=_mark_changes(sent, arrived, left, right),
    )


def _notices(view: View, clock: Clock, window: tuple[int, int]) -> int:
    times = clock.aligned(view.times(view.notices))
    return int(((times >= window[0]) & (times <= window[1])).sum())


def _match(sent: Labels, arrived: Labels, clocks: tuple[Clock, Clock]) -> _Matched:
    first = Labels(sent.rows, clocks[0].aligned(sent.time), sent.label)
    second = Labels(arrived.rows, clocks[1].aligned(arrived.time), arrived.label)
    second = aligned(first, second, 0.0)
    left, right = once_in_both(first, second)
    shortest = int((second.time[right] - first.time[left]).min()) if len(left) else 0
    rest, rest_arrived = (np.ones(len(part.rows), np.bool_) for part in (first, second))
    rest[left], rest_arrived[right] = False, False
    # A packet that is alone in one recording has no copies to tell apart.
    repeated = np.intersect1d(first.label[rest], second.label[rest_arrived])
    again, again_arrived = _members(first, rest, repeated), _members(second, rest_arrived, repeated)
    more, more_arrived = in_time(_subset(first, again), _subset(second, again_arrived), shortest - TOLERANCE)
    return _Matched(
        first, second, np.concatenate((left, again[more])), np.concatenate((right, again_arrived[more_arrived]))
    )


def _members(labels: Labels, rest: Mask, wanted: Numbers) -> Rows:
    where = np.flatnonzero(rest)
    return where[np.isin(labels.label[where], wanted)]


def _subset(labels: Labels, positions: Rows) -> Labels:
    return Labels(labels.rows[positions], labels.time[positions], labels.label[positions])


def _windows(
    sent: View, arrived: View, clocks: tuple[Clock, Clock], matched: list[_Matched]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return from when until when a packet must have been sent to be in both recordings, and to have arrived."""
    late = np.concatenate([part.arrived.time[part.right] - part.sent.time[part.left] for part in matched])
    shortest, longest = (max(int(late.min()), 0), max(int(late.max()), 0)) if len(late) else (0, 0)
    here, there = (
        clock.aligned(np.array(view.recording.span or _extent(view), np.int64)).tolist()
        for view, clock in ((sent, clocks[0]), (arrived, clocks[1]))
    )
    start, stop = max(here[0], there[0] - shortest), min(here[1], there[1] - longest)
    return (start, stop), (start + shortest, stop + longest)


def _extent(view: View) -> tuple[int, int]:
    times = view.recording.packets["time"]
    return int(times.min()), int(times.max())


def _unmatched(labels: Labels, matched: Rows, window: tuple[int, int]) -> Rows:
    alone = (labels.time >= window[0]) & (labels.time <= window[1])
    alone[matched] = False
    return np.flatnonzero(alone)


def _judge_requests(arrived: View, sent: Labels, missing: Rows, answers: Answers | None) -> tuple[Rows, int, int]:
    """Return which requests were lost, how many only escaped the second recorder, and how many are unresolved."""
    if not len(missing):
        return NONE, 0, 0
    psn = sent.label[missing] >> 8
    again = _sent_again(sent, missing)
    asked_for = answers.refused_between(psn, psn + 1) if answers else np.zeros(len(psn), np.bool_)
    counted = arrived.recording.dropped == 0
    acknowledged = psn < answers.acknowledged_to if answers else np.zeros(len(psn), np.bool_)
    escaped = acknowledged & ~again & ~asked_for
    lost = (again | asked_for if not arrived.recording.dropped else asked_for) & ~escaped
    lost |= ~escaped & counted
    return sent.rows[missing[lost]], int(escaped.sum()), int((~escaped & ~lost).sum())


def _sent_again(sent: Labels, missing: Rows) -> Mask:
    """Return which packets were sent again later."""
    numbers = sent.label >> 8
    same = np.isin(numbers, numbers[missing])
    where = np.flatnonzero(same)
    distinct, place = np.unique(numbers[where], return_inverse=True)
    last = np.zeros(len(distinct), np.intp)
    np.maximum.at(last, place, where)
    return np.asarray(last[np.searchsorted(distinct, numbers[missing])] > missing)


def _mark_changes(sent: View, arrived: View, left: Rows, right: Rows) -> MarkChanges:
    with_ip = sent.column("kind", left) != Kind.ROCE1
    left, right = left[with_ip], right[with_ip]
    before, after = sent.column("tos", left), arrived.column("tos", right)
    dscp = (before >> 2).astype(np.int64) << 6 | after >> 2
    ecn = (before & 3).astype(np.int64) << 2 | after & 3
    names = ("not-ect", "ect1", "ect0", "ce")
    congested = (after & 3 == CE) & ((before & 3 == ECT0) | (before & 3 == ECT1))
    return MarkChanges(
        dscp={
            f"{code >> 6} → {code & 63}": int(count)
            for code, count in enumerate(np.bincount(dscp, minlength=4096))
            if count and code >> 6 != code & 63
        },
        ecn={
            f"{names[code >> 2]} → {names[code & 3]}": int(count)
            for code, count in enumerate(np.bincount(ecn, minlength=16))
            if count and code >> 2 != code & 3
        },
        changed=right[before >> 2 != after >> 2],
        congested=right[congested],
    )


def _delay(matched: list[_Matched]) -> Delay | None:
    late = np.concatenate([part.arrived.time[part.right] - part.sent.time[part.left] for part in matched])
    if not len(late):
        return None
    median, p99 = np.percentile(late, [50, 99], method="inverted_cdf")
    return Delay(shortest=int(late.min()), median=int(median), p99=int(p99), longest=int(late.max()))
