"""Packets that prove a verdict: their numbers, to open in Wireshark, and when they were recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railbed.capture.analysis.clocks import Clock
from railbed.capture.analysis.results import FlowView
from railbed.capture.analysis.views import Rows
from railbed.capture.packets import Recording
from railbed.model.text import plural
from railbed.rules.judgement import Span

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
    span = clock.align(np.array([times.min(), times.max()], np.int64))
    numbers = tuple(recording.packets["number"][rows[:MOST_NUMBERS]].tolist())
    return PacketProof(recording.name, recording.file, numbers, len(rows), span[0] / 1e9, span[1] / 1e9, what)
