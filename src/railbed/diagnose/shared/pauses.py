"""Pauses of the lossless priority: how long a port was stopped, or stopped its neighbour."""

from __future__ import annotations

from typing import Literal

from railbed.diagnose.evidence import PortView
from railbed.rules.judgement import Span
from railbed.rules.signal import Signal

SHARE = 0.01
"""The share of time from which pausing costs bandwidth."""
FRAMES = 100.0
"""Frames per second that are as much, on cards that do not count the time."""
LEAST_SECONDS = 3.0
"""Shorter bursts are what PFC is for."""


def pauses(port: PortView, direction: Literal["rx", "tx"]) -> tuple[Signal, list[Span]]:
    """Return the series, and the episodes with much pausing: received (`rx`) or sent (`tx`) by the card."""
    lasting = port.try_read(f"pause_{direction}_us", port.lossless)
    if lasting is not None:
        return lasting, lasting.above(SHARE * 1e6, least=LEAST_SECONDS)
    frames = port.read(f"pause_{direction}_frames", port.lossless)
    return frames, frames.above(FRAMES, least=LEAST_SECONDS)


def amount_of(signal: Signal, span: Span) -> str:
    """Return how much pausing an episode had: a share of time, or frames per second."""
    if signal.meter.unit == "us":
        return f"{signal.mean(span) / 1e4:.0f} % of the time"
    return f"{signal.mean(span):,.0f} frames per second"
