"""Answers to the requests of a flow: acknowledgements, refusals by reason, and round trips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.views import RANGE, Numbers, Rows, Stream, View
from railbed.capture.opcodes import ANSWERS_FIRST

Mask = NDArray[np.bool_]
REFUSALS = {
    0: "sequence",
    1: "invalid request",
    2: "remote access",
    3: "remote operation",
    4: "invalid datagram request",
}
"""Codes of a negative acknowledgement."""
NOT_READY = "not ready"
RNR_MILLISECONDS = (
    *(655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92),
    *(2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52),
)
"""How long a receiver that is not ready makes the sender wait, by timer code."""
_ACKNOWLEDGED, _NOT_READY, _REFUSED = 0, 1, 3
"""The upper bits of a syndrome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrips:
    """Nanoseconds from a request to its first answer, of requests that were sent once."""

    count: int
    median: int
    p99: int
    longest: int
    longest_row: int
    """The request that waited longest."""


@dataclass(frozen=True)
class Answers:
    """The answers to the requests of one view, numbered like the requests."""

    view: View
    """The flow that carries the answers."""
    rows: Rows
    psn: Numbers
    time: Numbers
    syndrome: NDArray[np.uint8]

    @cached_property
    def acknowledged_to(self) -> int:
        """The first number that is not acknowledged; every answer covers all numbers before it."""
        positive = self.psn[self.syndrome >> 5 == _ACKNOWLEDGED] + 1
        return max(int(positive.max(initial=0)), int(self._asked_for.max(initial=0)))

    @cached_property
    def refusals(self) -> Mapping[str, int]:
        """How many refusals there are, by reason."""
        codes = np.bincount(self.syndrome[self.syndrome >> 5 == _REFUSED] & 31, minlength=32)
        named = {REFUSALS.get(code, f"reserved code {code}"): int(count) for code, count in enumerate(codes) if count}
        return named | ({NOT_READY: len(waits)} if len(waits := self.rows_of(NOT_READY)) else {})

    @cached_property
    def longest_wait(self) -> float:
        """The longest timer of receivers that were not ready, in seconds."""
        codes = set((self.syndrome[self.syndrome >> 5 == _NOT_READY] & 31).tolist())
        return max((RNR_MILLISECONDS[code] for code in codes), default=0.0) / 1000

    def rows_of(self, reason: str) -> Rows:
        """Return the refusals for a reason."""
        return self.rows[self._is(reason)]

    def _is(self, reason: str) -> Mask:
        if reason == NOT_READY:
            return np.asarray(self.syndrome >> 5 == _NOT_READY)
        code = next(code for code, name in REFUSALS.items() if name == reason)
        return np.asarray(self.syndrome == (_REFUSED << 5 | code))

    @cached_property
    def _asked_for(self) -> Numbers:
        """The numbers that receivers asked for again, in order."""
        return np.unique(self.psn[self._is("sequence")])

    def refused_between(self, first: Numbers, stop: Numbers) -> Mask:
        """Return whether a receiver asked for a number of each range again."""
        return np.asarray(np.searchsorted(self._asked_for, first) < np.searchsorted(self._asked_for, stop))

    def had_refusal(self, psn: Numbers, times: Numbers, reason: str) -> Mask:
        """Return whether a refusal of exactly this number came before a time."""
        of_reason = self._is(reason)
        numbers, first = np.unique(self.psn[of_reason], return_index=True)
        if not len(numbers):
            return np.zeros(len(psn), np.bool_)
        place = np.minimum(np.searchsorted(numbers, psn), len(numbers) - 1)
        return np.asarray((numbers[place] == psn) & (self.time[of_reason][first[place]] <= times))


def answers_to(requests: Stream, times: Numbers, view: View) -> Answers:
    """Return the answers that a view carries, numbered like the requests that were sent at those times."""
    answered = view.times(view.answers)
    psn = near(requests, times, view.column("psn", view.answers).astype(np.int64), answered)
    return Answers(view, view.answers, psn, answered, view.column("syndrome", view.answers))


def near(requests: Stream, times: Numbers, psn: Numbers, at: Numbers) -> Numbers:
    """Return 24-bit numbers without wrap: each is the closest to the request that was sent last at its time."""
    if not len(requests.psn):
        return psn
    last = np.maximum(np.searchsorted(times, at, side="right") - 1, 0)
    around = requests.psn[last]
    return around + ((psn - around + RANGE // 2) & (RANGE - 1)) - RANGE // 2


def round_trips(view: View, new: Mask, resent: Numbers, answers: Answers) -> RoundTrips | None:
    """Return how long requests waited for their first answer; None if no request and answer match.

    An acknowledgement that covers several requests counts for the one that it names. Numbers that were sent again are
    left out: nobody knows which copy was answered.
    """
    numbers, rows = view.requests.psn[new], view.requests.rows[new]
    named = ANSWERS_FIRST[answers.view.column("opcode", answers.rows)] & (answers.syndrome >> 5 == _ACKNOWLEDGED)
    answered, first = np.unique(answers.psn[named], return_index=True)
    place = np.searchsorted(numbers, answered)
    matches = place < len(numbers)
    matches[matches] = numbers[place[matches]] == answered[matches]
    matches &= ~np.isin(answered, resent)
    requested = rows[place[matches]]
    waits = answers.time[named][first[matches]] - view.times(requested)
    requested, waits = requested[waits >= 0], waits[waits >= 0]
    if not len(waits):
        return None
    median, p99 = np.percentile(waits, [50, 99], method="inverted_cdf")
    return RoundTrips(
        count=len(waits),
        median=int(median),
        p99=int(p99),
        longest=int(waits.max()),
        longest_row=int(requested[waits.argmax()]),
    )


def is_answer(view: View) -> Mask:
    """Return which answers name a request that arrived, for matching flows; refusals name what did not."""
    positive = view.column("syndrome", view.answers) >> 5 == _ACKNOWLEDGED
    return np.asarray(ANSWERS_FIRST[view.column("opcode", view.answers)] & positive)
