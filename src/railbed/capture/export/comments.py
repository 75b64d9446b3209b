"""What to write about which packets: marks, notifications, refusals, losses and repeats, as the analysis found them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import NOT_READY, REFUSALS
from railbed.capture.analysis.marks import congested
from railbed.capture.analysis.results import Analysis, FlowView
from railbed.capture.analysis.views import Rows
from railbed.capture.packets import Recording

NAKS = {name: f"NAK: {name} error" for name in REFUSALS.values()} | {
    "invalid request": "NAK: invalid request",
    "invalid datagram request": "NAK: invalid datagram request",
    NOT_READY: "RNR NAK: receiver not ready",
}
TEXTS = (
    "CE: marked as congested on the way",
    "CNP: congestion notification",
    "lost: sent here, but did not arrive",
    "the DSCP was changed on the way",
    "out of order",
    "the ICRC is wrong",
    *NAKS.values(),
)
"""Each is a bit."""
CE, CNP, LOST, CHANGED, REORDERED, CORRUPT = range(6)
FIRST_NAK = 6
AGAIN = "retransmission of a packet that was not recorded here"


@dataclass(frozen=True, slots=True)
class Comments:
    """The packets of a recording with a comment, by their numbers, in order."""

    numbers: NDArray[np.uint32]
    texts: NDArray[np.uint32]
    """Which of TEXTS, as bits."""
    repeats: NDArray[np.uint32]
    """The number of the packet that this repeats; its own number if that is not in the recording, 0 if it is none."""

    @property
    def referenced(self) -> NDArray[np.uint32]:
        """Numbers of packets that were repeated."""
        return np.unique(self.repeats[self.repeats > 0])


def comments_of(analysis: Analysis, recording: Recording) -> Comments:
    """Return what the analysis found about packets of a recording."""
    count = len(recording.packets)
    bits, repeats = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
    for flow in analysis.flows:
        for view in flow.views:
            if view.recording is recording:
                for bit, rows in _remarks(view):
                    bits[rows] |= np.uint32(1 << bit)
                repeats[view.sequence.resent_rows] = _repeated(view)
        for leg in flow.legs:
            if leg.sent.recording is recording:
                bits[leg.journey.lost] |= np.uint32(1 << LOST)
            if leg.arrived.recording is recording:
                bits[leg.journey.marks.changed] |= np.uint32(1 << CHANGED)
    rows = np.flatnonzero((bits > 0) | (repeats > 0))
    numbers = recording.packets["number"][rows]
    order = np.argsort(numbers, kind="stable")
    return Comments(numbers[order], bits[rows[order]], repeats[rows[order]])


def _remarks(view: FlowView) -> Iterator[tuple[int, Rows]]:
    yield CE, congested(view.view, view.view.rows)
    yield CNP, view.view.notices
    yield REORDERED, view.sequence.reordered_rows
    yield CORRUPT, view.checksums.wrong
    if view.answers:
        for place, reason in enumerate(NAKS):
            yield FIRST_NAK + place, view.answers.rows_of(reason)


def _repeated(view: FlowView) -> NDArray[np.uint32]:
    """Return the number of the previous packet with the same sequence number, for each that was sent again."""
    resent, requests = view.sequence.resent_rows, view.view.requests
    numbers = view.recording.packets["number"]
    if not len(resent):
        return numbers[resent]
    order = np.argsort(requests.psn, kind="stable")
    psn, rows = requests.psn[order], requests.rows[order]
    previous = np.where(np.diff(psn, prepend=psn[:1] - 1) == 0, np.roll(rows, 1), rows)
    by_row = np.argsort(rows, kind="stable")
    place = by_row[np.searchsorted(rows[by_row], resent)]
    repeated: NDArray[np.uint32] = numbers[previous[place]]
    return repeated


def comment_text(bits: int, repeats: int | None) -> str:
    """Return a comment; `repeats` is the number of the repeated packet, 0 if that is not in the file, None if none."""
    texts = [text for place, text in enumerate(TEXTS) if bits >> place & 1]
    if repeats is not None:
        texts.append(f"retransmission of {repeats}" if repeats else AGAIN)
    return "; ".join(texts)
