"""Both ends of a flow: what was sent, what arrived, with which mark, and what was lost on the way.

Packets in two recordings are the same by sequence number, opcode and occurrence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import Answers
from railbed.capture.analysis.clocks import Clock, Differences
from railbed.capture.analysis.traffic import CE, ECT0, ECT1
from railbed.capture.analysis.views import RANGE, Numbers, Rows, View, unwrap
from railbed.capture.packets import Kind

SAMPLES = 512
MOST_TURNS = 64
"""Wraps of the sequence numbers that are tried to bring two recordings together."""


@dataclass(frozen=True, slots=True)
class PacketLabels:
    """Packets with what identifies them, in order of time."""

    rows: Rows
    time: Numbers
    label: Numbers
    """Sequence number without wrap, and opcode."""

    def shift(self, turns: int) -> PacketLabels:
        """Return the packets with numbers that are some wraps further on."""
        return PacketLabels(self.rows, self.time, self.label + turns * (RANGE << 8)) if turns else self


def request_labels(view: View) -> PacketLabels:
    """Return the labels of a flow's requests."""
    return _labels(view, view.requests.rows, view.requests.psn)


def other_labels(view: View) -> tuple[PacketLabels, PacketLabels]:
    """Return the labels of a flow's answers and datagrams; notifications are all the same."""
    groups = (view.answers, view.datagrams)
    answers, datagrams = (_labels(view, rows, unwrap(view.column("psn", rows))) for rows in groups)
    return answers, datagrams


def _labels(view: View, rows: Rows, psn: Numbers) -> PacketLabels:
    return PacketLabels(rows, view.times(rows), psn << 8 | view.column("opcode", rows))


def align_numbers(sent: PacketLabels, arrived: PacketLabels, offset: float) -> PacketLabels:
    """Return the arrived packets with numbers in the same turn as the sent ones: times differ least from `offset`."""
    if not len(sent.rows) or not len(arrived.rows):
        return arrived
    turn = RANGE << 8
    lowest = -((int(arrived.label.max()) - int(sent.label.min())) // turn)
    highest = (int(sent.label.max()) - int(arrived.label.min())) // turn
    middle = (lowest + highest) // 2
    turns = range(max(lowest, middle - MOST_TURNS), min(highest, middle + MOST_TURNS) + 1)
    if len(turns) <= 1:
        return arrived.shift(turns[0] if turns else 0)
    order = np.argsort(sent.label, kind="stable")
    ordered, times = sent.label[order], sent.time[order]
    chosen = np.linspace(0, len(arrived.rows) - 1, min(SAMPLES, len(arrived.rows))).astype(np.intp)
    best = min(turns, key=lambda turn: _distance(ordered, times, arrived.shift(turn), chosen, offset))
    return arrived.shift(best)


def _distance(ordered: Numbers, times: Numbers, arrived: PacketLabels, chosen: Rows, offset: float) -> float:
    labels = arrived.label[chosen]
    place = np.minimum(np.searchsorted(ordered, labels), len(ordered) - 1)
    same = ordered[place] == labels
    if not same.any():
        return np.inf
    late = arrived.time[chosen][same] - times[place[same]]
    return float(abs(np.median(late) - offset))


def once_in_both(sent: PacketLabels, arrived: PacketLabels) -> tuple[Rows, Rows]:
    """Return the positions of packets that occur exactly once in both."""
    first, second = _singles(sent.label), _singles(arrived.label)
    _, left, right = np.intersect1d(sent.label[first], arrived.label[second], assume_unique=True, return_indices=True)
    return first[left], second[right]


def _singles(labels: Numbers) -> Rows:
    if np.all(labels[1:] > labels[:-1]):
        return np.arange(len(labels))
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1], [True]))
    return order[fresh[1:] & fresh[:-1]]


def in_time(sent: PacketLabels, arrived: PacketLabels, delay: int) -> tuple[Rows, Rows]:
    """Return the positions of packets that are the same: each arrival is the last copy sent `delay` before it.

    Copies that arrive in equal numbers match in order.
    """
    if not len(sent.label) or not len(arrived.label):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    labels = np.concatenate((sent.label, arrived.label))
    times = np.concatenate((sent.time, arrived.time - delay))
    is_arrival = np.arange(len(labels)) >= len(sent.label)
    order = np.lexsort((is_arrival, times, labels))
    ordered, arrives = labels[order], is_arrival[order]
    starts = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    group = np.cumsum(starts) - 1
    equal = (np.bincount(group, weights=arrives) * 2 == np.bincount(group))[group]
    first, second = _in_order(order, arrives, equal, len(sent.label))
    third, fourth = _last_before(order, arrives & ~equal, ~arrives & ~equal, group, len(sent.label))
    return np.concatenate((first, third)), np.concatenate((second, fourth))


def _in_order(order: Rows, arrives: NDArray[Any], equal: NDArray[Any], sent: int) -> tuple[Rows, Rows]:
    return order[equal & ~arrives], order[equal & arrives] - sent


def _last_before(
    order: Rows, arrives: NDArray[Any], leaves: NDArray[Any], group: Numbers, sent: int
) -> tuple[Rows, Rows]:
    position = np.where(leaves, np.arange(len(order)), -1)
    last = np.maximum.accumulate(position) if len(position) else position
    valid = arrives & (last >= 0)
    valid[valid] = group[last[valid]] == group[valid]
    departures, first = np.unique(last[valid], return_index=True)
    return order[departures], order[valid][first] - sent


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

    sent: PacketLabels
    arrived: PacketLabels
    left: Rows
    right: Rows


def differences(sent: View, arrived: View) -> Differences:
    """Return how much later packets arrived that occur exactly once in both recordings."""
    pairs = [(request_labels(sent), request_labels(arrived)), (other_labels(sent)[0], other_labels(arrived)[0])]
    times: list[Numbers] = []
    later: list[Numbers] = []
    for first, second in pairs:
        left, right = once_in_both(first, align_numbers(first, second, 0.0))
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
    missing = [_find_unmatched(part.sent, part.left, window) for part in matched]
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
        unsent=sum(len(_find_unmatched(part.arrived, part.right, later)) for part in matched),
        notices_sent=notices,
        notices_arrived=min(notices, notices_arrived),
        delay=_delay(matched),
        marks=_mark_changes(sent, arrived, left, right),
    )


def _notices(view: View, clock: Clock, window: tuple[int, int]) -> int:
    times = clock.align(view.times(view.notices))
    return int(((times >= window[0]) & (times <= window[1])).sum())


def _match(sent: PacketLabels, arrived: PacketLabels, clocks: tuple[Clock, Clock]) -> _Matched:
    first = PacketLabels(sent.rows, clocks[0].align(sent.time), sent.label)
    second = PacketLabels(arrived.rows, clocks[1].align(arrived.time), arrived.label)
    second = align_numbers(first, second, 0.0)
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


def _members(labels: PacketLabels, rest: Mask, wanted: Numbers) -> Rows:
    where = np.flatnonzero(rest)
    return where[np.isin(labels.label[where], wanted)]


def _subset(labels: PacketLabels, positions: Rows) -> PacketLabels:
    return PacketLabels(labels.rows[positions], labels.time[positions], labels.label[positions])


def _windows(
    sent: View, arrived: View, clocks: tuple[Clock, Clock], matched: list[_Matched]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return from when until when a packet must have been sent to be in both recordings, and to have arrived."""
    late = np.concatenate([part.arrived.time[part.right] - part.sent.time[part.left] for part in matched])
    shortest, longest = (max(int(late.min()), 0), max(int(late.max()), 0)) if len(late) else (0, 0)
    here, there = (
        clock.align(np.array(view.recording.span or _extent(view), np.int64)).tolist()
        for view, clock in ((sent, clocks[0]), (arrived, clocks[1]))
    )
    start, stop = max(here[0], there[0] - shortest), min(here[1], there[1] - longest)
    return (start, stop), (start + shortest, stop + longest)


def _extent(view: View) -> tuple[int, int]:
    times = view.recording.packets["time"]
    return int(times.min()), int(times.max())


def _find_unmatched(labels: PacketLabels, matched: Rows, window: tuple[int, int]) -> Rows:
    alone = (labels.time >= window[0]) & (labels.time <= window[1])
    alone[matched] = False
    return np.flatnonzero(alone)


def _judge_requests(arrived: View, sent: PacketLabels, missing: Rows, answers: Answers | None) -> tuple[Rows, int, int]:
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


def _sent_again(sent: PacketLabels, missing: Rows) -> Mask:
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
