"""The blocks of a pcapng file that are not packets, and the comments that packets get.

Comments are about marks, notifications, refusals, losses and repeats, as the analysis found them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import NOT_READY, REFUSALS
from railbed.capture.analysis.results import Analysis, FlowView
from railbed.capture.analysis.traffic import select_congested
from railbed.capture.analysis.views import Rows
from railbed.capture.files.formats.blocks import INTERFACE, SECTION, STATISTICS
from railbed.capture.files.layers import LinkType
from railbed.capture.packets import Recording

NAMES = 4
"""The type of a block with names of addresses."""
COMMENT = 1
APPLICATION = 4
INTERFACE_NAME, INTERFACE_DESCRIPTION, RESOLUTION = 2, 3, 9
STARTED, ENDED, RECEIVED, DROPPED = 2, 3, 4, 5
BYTE_ORDER, UNKNOWN_LENGTH = 0x1A2B3C4D, -1
MOST_TEXT = 60_000
"""Bytes of a text; the length of an option has 16 bits."""
LINK_NUMBERS = {LinkType.ETHERNET: 1, LinkType.RAW: 101, LinkType.COOKED: 113, LinkType.COOKED2: 276}


def text_option(code: int, text: str) -> bytes:
    """Return an option with a text; an empty one is left out."""
    return option(code, text.encode("utf-8", "replace")[:MOST_TEXT]) if text else b""


def option(code: int, value: bytes) -> bytes:
    """Return an option."""
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


END = struct.pack("<HH", 0, 0)
"""After the last option."""


def _block(kind: int, content: bytes) -> bytes:
    length = struct.pack("<I", len(content) + 12)
    return struct.pack("<I", kind) + length + content + length


def section(application: str, comment: str) -> bytes:
    """Return the header of the file."""
    options = text_option(COMMENT, comment) + text_option(APPLICATION, application)
    return _block(SECTION, struct.pack("<IHHq", BYTE_ORDER, 1, 0, UNKNOWN_LENGTH) + options + END)


def interface(link: LinkType, snap_length: int, name: str, description: str) -> bytes:
    """Return the description of an interface whose times are in nanoseconds."""
    options = text_option(INTERFACE_NAME, name) + text_option(INTERFACE_DESCRIPTION, description)
    options += option(RESOLUTION, b"\x09")
    return _block(INTERFACE, struct.pack("<HHI", LINK_NUMBERS[link], 0, snap_length) + options + END)


def statistics(number: int, span: tuple[int, int] | None, received: int, dropped: int | None) -> bytes:
    """Return what an interface counted; times are nanoseconds."""
    first, last = span or (0, 0)
    options = option(STARTED, _time(first)) + option(ENDED, _time(last)) if span else b""
    options += option(RECEIVED, struct.pack("<Q", received + (dropped or 0)))
    if dropped is not None:
        options += option(DROPPED, struct.pack("<Q", dropped))
    return _block(STATISTICS, struct.pack("<I", number) + _time(last) + options + END)


def names(by_address: Mapping[str, str]) -> bytes:
    """Return the names of addresses; nothing without any."""
    records = b"".join(_name_records(by_address.items()))
    return _block(NAMES, records + END) if records else b""


def _name_records(pairs: Iterable[tuple[str, str]]) -> Iterable[bytes]:
    for address, name in pairs:
        packed = ip_address(address).packed
        yield option(1 if len(packed) == 4 else 2, packed + name.encode() + b"\0")


def _time(nanoseconds: int) -> bytes:
    return struct.pack("<II", *divmod(max(0, nanoseconds), 1 << 32))


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
                repeats[view.sequence.resent_rows] = _find_repeated(view)
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
    yield CE, select_congested(view.view, view.view.rows)
    yield CNP, view.view.notices
    yield REORDERED, view.sequence.reordered_rows
    yield CORRUPT, view.checksums.wrong
    if view.answers:
        for place, reason in enumerate(NAKS):
            yield FIRST_NAK + place, view.answers.rows_of(reason)


def _find_repeated(view: FlowView) -> NDArray[np.uint32]:
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
