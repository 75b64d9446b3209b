"""Packets as evidence: those that prove a verdict, and the marks that rules count.

Packets that prove a verdict: their numbers, to open in Wireshark, and when they were recorded.

Marks of the packets that a port sends, as rules about marking count them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.clocks import Clock
from railbed.capture.analysis.results import FlowView
from railbed.capture.analysis.views import Rows
from railbed.capture.opcodes import ROLE, Role
from railbed.capture.packets import Kind, Recording
from railbed.capture.subjects import SenderView
from railbed.model.text import plural
from railbed.rules.judgement import Span
from railbed.rules.rule import Absent

MOST_NUMBERS = 8


@dataclass(frozen=True, slots=True)
class PacketProof:
    """Some packets of a recording."""

    recording: str
    file: str
    numbers: tuple[int, ...]
    """The first few, as Wireshark counts."""
    count: int
    start: float
    end: float
    """Seconds since the epoch, by the reference clock."""
    what: str = ""

    @property
    def when(self) -> Span:
        """From the first to the last of them."""
        return Span(self.start, self.end)

    def proves(self, _span: Span | None) -> str:
        """Return one line to find them with."""
        where = self.file or self.recording
        listed = ", ".join(map(str, self.numbers))
        more = ", …" if self.count > len(self.numbers) else ""
        what = f" ({self.what})" if self.what else ""
        return f"{where}: {plural(self.count, 'packet')}{what}; Wireshark filter: frame.number in {{{listed}}}{more}"


def proof_of(view: FlowView, rows: Rows, what: str = "") -> PacketProof:
    """Return rows of a flow's recording as proof."""
    return proof_from(view.recording, view.clock, rows, what)


def proof_from(recording: Recording, clock: Clock, rows: Rows, what: str = "") -> PacketProof:
    """Return rows of a recording as proof; there is at least one."""
    times = recording.packets["time"][rows]
    span = clock.aligned(np.array([times.min(), times.max()], np.int64))
    numbers = tuple(recording.packets["number"][rows[:MOST_NUMBERS]].tolist())
    return PacketProof(recording.name, recording.file, numbers, len(rows), span[0] / 1e9, span[1] / 1e9, what)


LEAST_PACKETS = 10
MOST_SHARE = 0.01
"""Wrong marks up to this share may come from another application; both limits must be exceeded."""
Marked = list[tuple[FlowView, Rows]]


def sent_marks(port: SenderView) -> Marked:
    """Return the packets with requests or data that a port sends, as close to it as they were recorded."""
    views = []
    for flow in port.sends:
        rows, view = flow.main.view.rows, flow.main.view
        role = ROLE[view.column("opcode", rows)]
        chosen = ((role == Role.REQUEST) | (role == Role.DATA)) & (view.column("kind", rows) != Kind.ROCE1)
        if chosen.any():
            views.append((flow.main, rows[chosen]))
    if not views:
        raise Absent(f"{port.subject} sends no RDMA data with an IP header")
    return views


def not_expected(
    views: Iterable[tuple[FlowView, Rows]], is_wrong: Callable[[NDArray[Any]], NDArray[Any]]
) -> tuple[int, int, Marked]:
    """Return how many packets have a wrong mark, of how many, and which; none if they are only a few."""
    total, wrong = 0, []
    for view, rows in views:
        mask = is_wrong(view.view.column("tos", rows))
        total += len(rows)
        if mask.any():
            wrong.append((view, rows[mask]))
    count = sum(len(rows) for _, rows in wrong)
    return (count, total, wrong) if enough(count, total) else (0, total, [])


def enough(wrong: int, total: int) -> bool:
    """Whether so many wrong marks are more than an accident."""
    return wrong >= LEAST_PACKETS and wrong > MOST_SHARE * total


def most_frequent(views: Marked) -> int:
    """Return the DSCP that most of these packets have."""
    counts = sum(np.bincount(view.view.column("tos", rows) >> 2, minlength=64) for view, rows in views)
    return int(np.argmax(counts))
