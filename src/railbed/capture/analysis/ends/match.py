"""The same packets in two recordings of a flow, by sequence number, opcode and occurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.views import RANGE, Numbers, Rows, View, unwrap

SAMPLES = 512
MOST_TURNS = 64
"""Wraps of the sequence numbers that are tried to bring two recordings together."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Packets with what identifies them, in order of time."""

    rows: Rows
    time: Numbers
    label: Numbers
    """Sequence number without wrap, and opcode."""

    def shifted(self, turns: int) -> Labels:
        """Return the packets with numbers that are some wraps further on."""
        return Labels(self.rows, self.time, self.label + turns * (RANGE << 8)) if turns else self


def request_labels(view: View) -> Labels:
    """Return the labels of a flow's requests."""
    return _labels(view, view.requests.rows, view.requests.psn)


def other_labels(view: View) -> tuple[Labels, Labels]:
    """Return the labels of a flow's answers and datagrams; notifications are all the same."""
    groups = (view.answers, view.datagrams)
    answers, datagrams = (_labels(view, rows, unwrap(view.column("psn", rows))) for rows in groups)
    return answers, datagrams


def _labels(view: View, rows: Rows, psn: Numbers) -> Labels:
    return Labels(rows, view.times(rows), psn << 8 | view.column("opcode", rows))


def aligned(sent: Labels, arrived: Labels, offset: float) -> Labels:
    """Return the arrived packets with numbers in the same turn as the sent ones: times differ least from `offset`."""
    if not len(sent.rows) or not len(arrived.rows):
        return arrived
    turn = RANGE << 8
    lowest = -((int(arrived.label.max()) - int(sent.label.min())) // turn)
    highest = (int(sent.label.max()) - int(arrived.label.min())) // turn
    middle = (lowest + highest) // 2
    turns = range(max(lowest, middle - MOST_TURNS), min(highest, middle + MOST_TURNS) + 1)
    if len(turns) <= 1:
        return arrived.shifted(turns[0] if turns else 0)
    order = np.argsort(sent.label, kind="stable")
    ordered, times = sent.label[order], sent.time[order]
    chosen = np.linspace(0, len(arrived.rows) - 1, min(SAMPLES, len(arrived.rows))).astype(np.intp)
    best = min(turns, key=lambda turn: _distance(ordered, times, arrived.shifted(turn), chosen, offset))
    return arrived.shifted(best)


def _distance(ordered: Numbers, times: Numbers, arrived: Labels, chosen: Rows, offset: float) -> float:
    labels = arrived.label[chosen]
    place = np.minimum(np.searchsorted(ordered, labels), len(ordered) - 1)
    same = ordered[place] == labels
    if not same.any():
        return np.inf
    late = arrived.time[chosen][same] - times[place[same]]
    return float(abs(np.median(late) - offset))


def once_in_both(sent: Labels, arrived: Labels) -> tuple[Rows, Rows]:
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


def in_time(sent: Labels, arrived: Labels, delay: int) -> tuple[Rows, Rows]:
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
