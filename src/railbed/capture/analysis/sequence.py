"""Sequence numbers of requests: gaps, repeats, order; and whether what is missing was lost or only not recorded.

A packet is *ahead* if it leaves a hole, and *behind* if a later number came before it. Behind, it is *late* if its
number is new to this recording, otherwise a repeat. A late packet was sent again if a refusal asked for it, if repeats
follow it (the sender went back), or if it took a millisecond; otherwise the network changed the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import Answers
from railbed.capture.analysis.views import Numbers, Rows, View
from railbed.capture.opcodes import FULL, OPERATION, RdmaOperation

Mask = NDArray[np.bool_]
RESENT_AFTER = 1_000_000
"""Nanoseconds by which a network hardly delays one packet more than the next."""
PATH_SIZES = (256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Holes:
    """Ranges of numbers that were skipped, in order: first, and the first after them."""

    first: Numbers
    stop: Numbers
    at: Rows
    """The position in the stream of the packet after the hole."""

    def index(self, numbers: Numbers) -> Rows:
        """Return the hole that each number lies in; -1 if none."""
        place = np.searchsorted(self.first, numbers, side="right") - 1
        inside = place >= 0
        inside[inside] = numbers[inside] < self.stop[place[inside]]
        return np.where(inside, place, -1)


@dataclass(frozen=True, slots=True)
class Order:
    """How the packets of a stream follow each other; masks over the stream."""

    span: Numbers
    """How many numbers each request uses: one, or one for each packet of data that it reads."""
    behind: Mask
    late: Mask
    holes: Holes

    @property
    def new(self) -> Mask:
        """Packets whose numbers increase."""
        return ~self.behind


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceNumbers:
    """What the sequence numbers of a flow show in one recording."""

    holes: int = 0
    reordered: int = 0
    resent: int = 0
    """Packets that were sent again, as far as this recording shows."""
    lost: int = 0
    """Packets lost before they reached the recorder: asked for or sent again; at the sender, in its own queue."""
    uncaptured: int = 0
    """Packets that arrived, since they were acknowledged, or that the recorded port sent itself."""
    unresolved: int = 0
    """Packets that are missing, and nothing shows whether they arrived."""
    causes: Mapping[str, int] = field(default_factory=dict)
    """How often the sender went back, by cause: `sequence`, `not ready`, `time-out`, `unknown`."""
    longest_stall: int = 0
    """The longest time without packets before the sender went back because of a time-out, in nanoseconds."""
    resent_rows: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    lost_rows: Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    """Packets after a hole whose numbers were lost."""
    reordered_rows: Rows = field(default_factory=lambda: np.zeros(0, np.intp))


def order_of(view: View, path_size: int) -> Order:
    """Return how the requests of a view follow each other."""
    psn = view.requests.psn
    span = _spans(view, path_size)
    if not len(psn):
        none = np.zeros(0, np.bool_)
        return Order(span, none, none, Holes(psn, psn, view.requests.rows))
    before = np.empty_like(psn)
    before[0] = psn[0]
    np.maximum.accumulate(psn[:-1] + span[:-1], out=before[1:])
    np.maximum(before, psn[0], out=before)
    behind = psn < before
    at = np.flatnonzero(psn > before)
    holes = Holes(before[at], psn[at], at)
    return Order(span, behind, _late(psn, behind, holes), holes)


def _late(psn: Numbers, behind: Mask, holes: Holes) -> Mask:
    late = np.zeros(len(psn), np.bool_)
    where = np.flatnonzero(behind)
    numbers, first = np.unique(psn[where], return_index=True)
    late[where[first[(holes.index(numbers) >= 0) | (numbers < psn[0])]]] = True
    return late


def _spans(view: View, path_size: int) -> Numbers:
    rows = view.requests.rows
    span = np.ones(len(rows), np.int64)
    reads = np.flatnonzero(OPERATION[view.column("opcode", rows)] == RdmaOperation.READ)
    if len(reads):
        lengths = view.column("message", rows[reads]).astype(np.int64)
        span[reads] = np.maximum(1, -(-lengths // path_size))
    return span


def judge_sequence(view: View, order: Order, answers: Answers | None) -> SequenceNumbers:
    """Return what the order of requests shows, with the answers to them if those were recorded."""
    times = view.times(view.requests.rows)
    resent_late = order.late & _sent_again(view, order, answers, times)
    reordered = order.late & ~resent_late
    resent = order.behind & ~reordered
    lost, uncaptured, unresolved, lost_holes = _missing(view, order, answers, resent_late, reordered)
    causes, stall = _causes(view, order, answers, resent)
    rows = view.requests.rows
    return SequenceNumbers(
        holes=len(order.holes.at),
        reordered=int(reordered.sum()),
        resent=int(resent.sum()),
        lost=lost,
        uncaptured=uncaptured,
        unresolved=unresolved,
        causes=causes,
        longest_stall=stall,
        resent_rows=rows[resent],
        lost_rows=rows[order.holes.at[lost_holes]],
        reordered_rows=rows[reordered],
    )


def _sent_again(view: View, order: Order, answers: Answers | None, times: Numbers) -> Mask:
    """Return which late packets were sent again; the rest only changed places."""
    again = np.zeros(len(order.late), np.bool_)
    where = np.flatnonzero(order.late)
    if not len(where):
        return again
    if view.end == "sender":
        return order.late
    psn = view.requests.psn
    place = order.holes.index(psn[where])
    left = times[order.holes.at[place]] if len(order.holes.at) else np.full(len(where), times[0])
    left[place < 0] = times[0]
    asked_for = np.zeros(len(where), np.bool_)
    if answers and len(order.holes.at):
        asked_for = (place >= 0) & answers.refused_between(order.holes.first[place], psn[where] + 1)
    again[where] = (times[where] - left >= RESENT_AFTER) | _goes_back(order, psn)[where] | asked_for
    return again


def _goes_back(order: Order, psn: Numbers) -> Mask:
    """Return packets in a row of consecutive numbers behind, of which at least one is a repeat."""
    continues = np.zeros(len(psn), np.bool_)
    continues[1:] = order.behind[1:] & order.behind[:-1] & (psn[1:] == psn[:-1] + order.span[:-1])
    row = np.cumsum(~continues)
    repeats = np.bincount(row, weights=order.behind & ~order.late)
    return repeats[row] > 0


def _missing(
    view: View, order: Order, answers: Answers | None, resent_late: Mask, reordered: Mask
) -> tuple[int, int, int, Mask]:
    """Return how many numbers were lost, not captured or unresolved, and which holes were losses."""
    holes, psn = order.holes, view.requests.psn
    size = holes.stop - holes.first
    by_resend = _count(holes, psn[resent_late])
    absent = size - by_resend - _count(holes, psn[reordered])
    early = int(resent_late.sum() - by_resend.sum())
    refused = answers.refused_between(holes.first, holes.stop) if answers else np.zeros(len(size), np.bool_)
    if view.end == "sender":
        # A port skips no number: either the recorder missed it, or it was lost before, in the port's own queue.
        missing = absent + by_resend
        return int(missing[refused].sum()), int(missing[~refused].sum()), 0, refused & (missing > 0)
    arrived = ~refused & (holes.stop <= answers.acknowledged_to) if answers else np.zeros(len(size), np.bool_)
    lost = by_resend + np.where(refused, absent, 0)
    uncaptured, unresolved = absent[arrived].sum(), absent[~arrived & ~refused].sum()
    return int(lost.sum()) + early, int(uncaptured), int(unresolved), lost > 0


def _count(holes: Holes, numbers: Numbers) -> Numbers:
    place = holes.index(numbers)
    return np.bincount(place[place >= 0], minlength=len(holes.first)).astype(np.int64)


def _causes(view: View, order: Order, answers: Answers | None, resent: Mask) -> tuple[Mapping[str, int], int]:
    """Return why the sender went back, how often, and the longest wait for a time-out."""
    psn, times = view.requests.psn, view.times(view.requests.rows)
    starts = resent.copy()
    starts[1:] &= ~resent[:-1] | (psn[1:] != psn[:-1] + order.span[:-1])
    where = np.flatnonzero(starts)
    if not len(where):
        return {}, 0
    if answers is None:
        return {"unknown": len(where)}, 0
    by_refusal = answers.had_refusal(psn[where], times[where], "sequence")
    by_not_ready = answers.had_refusal(psn[where], times[where], "not ready") & ~by_refusal
    by_time = ~by_refusal & ~by_not_ready
    waits = times[where] - times[np.maximum(where - 1, 0)]
    by_time_out = by_time & (view.end == "sender")
    counts = {
        "sequence": int(by_refusal.sum()),
        "not ready": int(by_not_ready.sum()),
        "time-out": int(by_time_out.sum()),
        "unknown": int((by_time & ~by_time_out).sum()),
    }
    stall = int(waits[by_time_out].max(initial=0))
    return {cause: count for cause, count in counts.items() if count}, stall


def full_size_of(*views: View) -> int | None:
    """Return the bytes in packets that others of the same message follow: the path MTU of RDMA; None without any."""
    for view in views:
        payloads = view.column("payload")[FULL[view.column("opcode")]]
        if len(payloads):
            return int(np.bincount(np.minimum(payloads, 1 << 16)).argmax()) or None
    return None


def fitting_size_of(*views: View) -> int:
    """Return the size of packets that fits the distance of numbers after READ requests."""
    return max(PATH_SIZES[::-1], key=lambda size: sum(_fits(view, size) for view in views))


def _fits(view: View, size: int) -> int:
    psn, span = view.requests.psn, _spans(view, size)
    return int((psn[1:] == psn[:-1] + span[:-1]).sum())
