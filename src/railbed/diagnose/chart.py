"""A series as a line of block characters, small enough to stand in a sentence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from railbed.diagnose.signal import Signal, Span
from railbed.model.text.amount import duration, number, size

BLOCKS = "▁▂▃▄▅▆▇█"
GAP = "·"
WIDTH = 32
LEAST_SECONDS = 5.0
"""Shown before and after an episode, at least."""


def spark(signal: Signal, span: Span | None = None, width: int = WIDTH) -> str:
    """Draw a series around a span: the highest value of each piece of time, `·` where nothing is known."""
    if not len(signal.times):
        return ""
    shown = span.widened(max(LEAST_SECONDS, span.seconds / 2)) if span else Span(signal.times[0], signal.times[-1])
    start, end = max(shown.start, float(signal.times[0])), min(shown.end, float(signal.times[-1]))
    count = max(1, min(width, round((end - start) / max(signal.interval, 1e-3))))
    edges = np.linspace(start, end, count + 1)
    peaks = [signal.peak(Span(float(low), float(high))) for low, high in pairwise(edges)]
    top = max((peak for peak in peaks if np.isfinite(peak)), default=0.0)
    return "".join(_block(peak, top) for peak in peaks)


def _block(value: float, top: float) -> str:
    if not np.isfinite(value):
        return GAP
    if value <= 0 or top <= 0:
        return BLOCKS[0]
    return BLOCKS[min(len(BLOCKS) - 1, 1 + int(value / top * (len(BLOCKS) - 2)))]


def amount(value: float, unit: str) -> str:
    """Return a value of a meter with its unit."""
    match unit:
        case "byte":
            return size(value)
        case "s":
            return duration(value)
        case "us":
            return duration(value / 1e6)
        case "1":
            return number(value, 3)
        case _:
            return f"{number(value, 3)} {unit}"


def shown(signal: Signal, span: Span | None = None) -> str:
    """Return a series as evidence: its name, its peak, and its chart."""
    per = "/s" if signal.meter.kind == "counter" else ""
    where = "/".join(part for part in (signal.series.device, signal.series.port) if part)
    part = f" of {signal.meter.part} {signal.series.part}" if signal.series.part else ""
    top = signal.peak(span)
    text = f"at most {amount(top, signal.meter.unit)}{per}" if np.isfinite(top) else "no sample"
    return f"{signal.meter.name}{part} on {where}: {spark(signal, span)} {text}"
