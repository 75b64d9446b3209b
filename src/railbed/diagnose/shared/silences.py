"""Times in which a device was not sampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railbed.diagnose.evidence import Evidence
from railbed.diagnose.signal import Numbers, Span
from railbed.store.series.data import meter_of

MISSED = 4
"""Samples in a row."""


def sampled_times(evidence: Evidence, device: str) -> Numbers:
    """Return when a device was sampled; empty if it never was."""
    times: list[Numbers] = []
    for series in evidence.timeline.series():
        if series.device == device and meter_of(series.meter).part != "rank" and (signal := evidence.signal(series)):
            times.append(signal.times[np.isfinite(signal.values)])
            if len(times) == 3:  # the series of a device are sampled together
                break
    return np.unique(np.concatenate(times)) if times else np.empty(0)


def silences(times: Numbers, least: float, end: float) -> list[Span]:
    """Return the gaps of at least some seconds between samples, and from the last one to the end of sampling."""
    if len(times) < 2:
        return []
    steps = np.diff(times)
    interval = float(np.median(steps))
    limit = max(least, MISSED * interval)
    ends = np.append(times[1:] - interval, end)  # the first rate after a gap is not known
    return [Span(float(start), float(end)) for start, end in zip(times, ends, strict=True) if end - start >= limit]


def alone(span: Span, others: Sequence[Numbers]) -> bool:
    """Whether most of the other devices were sampled in a time: otherwise the whole site stood still."""
    middle = Span(span.start + span.seconds * 0.25, span.end)
    heard = [bool(np.any((times > middle.start) & (times < middle.end))) for times in others if len(times)]
    return bool(heard) and sum(heard) > len(heard) / 2
