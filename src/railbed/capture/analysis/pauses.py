"""Pause frames by sender and priority, and for how long they stopped the link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railbed.capture.analysis.views import Numbers, Rows
from railbed.capture.packets import Kind, Recording

QUANTUM_BITS = 512
MOST_SENDERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The pause frames of one sender for one priority, in one recording."""

    recording: Recording
    sender: str
    """Its MAC address."""
    priority: int | None
    """None for an 802.3x pause, which stops all."""
    frames: int
    stops: int
    """Frames that ask to stop; the others ask to go on."""
    seconds: float
    """For how long it stopped the link; without a link speed, the time from a stop to the next frame."""
    longest: float
    exact: bool
    """Whether the link speed is known, on which the time depends."""
    numbers: tuple[int, ...]
    """The first packets, as Wireshark counts."""
    first: int
    last: int
    """When: nanoseconds of the recording's clock."""


def pauses_of(recording: Recording, speed: float | None) -> list[Paused]:
    """Return the pauses that a recording contains; the link speed in Gb/s, if known."""
    pauses, packets = recording.packets.pauses, recording.packets
    if not len(pauses.number):
        return []
    is_global = np.isin(pauses.number, packets["number"][packets["kind"] == Kind.PAUSE])
    totals = []
    for sender in np.unique(pauses.sender)[:MOST_SENDERS]:
        own = pauses.sender == sender
        for priority in (None, *range(8)):
            named = is_global if priority is None else ~is_global & (pauses.classes >> priority & 1 == 1)
            rows = np.flatnonzero(own & named)
            if len(rows):
                totals.append(_measure_pauses(recording, priority, rows, speed))
    return totals


def _measure_pauses(recording: Recording, priority: int | None, rows: Rows, speed: float | None) -> Paused:
    pauses = recording.packets.pauses
    rows = rows[np.argsort(pauses.time[rows], kind="stable")]
    times, quanta = pauses.time[rows], pauses.quanta[rows, priority or 0].astype(np.int64)
    stops = quanta > 0
    until_next = np.append(np.diff(times), 0 if speed is None else np.iinfo(np.int64).max)
    lasts = until_next if speed is None else np.minimum(until_next, (quanta * QUANTUM_BITS / speed).astype(np.int64))
    lasts = np.where(stops, lasts, 0)
    return Paused(
        recording=recording,
        sender=int(pauses.sender[rows[0]]).to_bytes(8, "big")[2:].hex(":"),
        priority=priority,
        frames=len(rows),
        stops=int(stops.sum()),
        seconds=float(lasts.sum()) / 1e9,
        longest=_longest(times, lasts) / 1e9,
        exact=speed is not None,
        numbers=tuple(pauses.number[rows[:8]].tolist()),
        first=int(times[0]),
        last=int(times[-1]),
    )


def _longest(times: Numbers, lasts: Numbers) -> int:
    """Return the longest time without a break: a stop that is renewed before it ends goes on."""
    ends = times + lasts
    breaks = np.concatenate(([True], (times[1:] > ends[:-1]) | (lasts[1:] == 0)))
    row = np.cumsum(breaks) - 1
    return int(np.bincount(row, weights=lasts).max(initial=0))
