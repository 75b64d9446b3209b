"""Times in which a device was not sampled although the run was in progress."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from railbed.diagnose.evidence import Evidence
from railbed.rules.judgement import Span
from railbed.rules.signal import Numbers
from railbed.store.series.data import meter_of

MISSED = 4
"""Samples in a row that make a silence: a busy machine misses one or two."""


def sampled_times(evidence: Evidence, device: str) -> Numbers:
    """Return when a device was sampled; empty if it never was."""
    times: list[Numbers] = []
    for series in evidence.timeline.series():
        if series.device == device and meter_of(series.meter).of != "rank" and (signal := evidence.signal(series)):
            times.append(signal.times[np.isfinite(signal.values)])
            if len(times) == 3:  # the series of a device are sampled together
                break
    return np.unique(np.concatenate(times)) if times else np.empty(0)


def parts_of(evidence: Evidence) -> list[Span]:
    """Return the times in which the run was in progress: from each start to the last sample before the next one."""
    first, *others = evidence.timeline.starts()
    if not others:
        return [evidence.span]
    devices = (*evidence.cluster.nodes, *evidence.cluster.switches)
    sampled = np.unique(np.concatenate([sampled_times(evidence, device) for device in devices]))
    starts = [first, *sorted(others)]
    before = [_last(sampled, part) for part in pairwise(starts)]
    return [Span(start, max(start, end)) for start, end in zip(starts, [*before, evidence.span.end], strict=True)]


def _last(times: Numbers, part: tuple[float, float]) -> float:
    """Return the last sample between two times; the first of them if there is none."""
    inside = times[(times >= part[0]) & (times < part[1])]
    return float(inside[-1]) if len(inside) else part[0]


def silences(times: Numbers, least: float, parts: Sequence[Span]) -> list[Span]:
    """Return the gaps of at least some seconds between samples, and from the last one to the end, in parts of a run."""
    return [
        silence
        for part in parts
        for silence in _silences(times[(times >= part.start) & (times <= part.end)], least, part.end)
    ]


def _silences(times: Numbers, least: float, end: float) -> list[Span]:
    if len(times) < 2:
        return []
    steps = np.diff(times)
    interval = float(np.median(steps))
    limit = max(least, MISSED * interval)
    ends = np.append(times[1:] - interval, end)  # the first rate after a gap is not known
    return [Span(float(start), float(end)) for start, end in zip(times, ends, strict=True) if end - start >= limit]


def alone(span: Span, others: Sequence[Numbers]) -> bool:
    """Whether most of the other devices were sampled in a time: otherwise the whole site stood still.

    After a site stood still, devices are sampled again one by one, and the last of them is not to blame.
    """
    sampled = [_longest_silence(times, span) < span.seconds / 2 for times in others if len(times)]
    return bool(sampled) and sum(sampled) > len(sampled) / 2


def _longest_silence(times: Numbers, span: Span) -> float:
    inside = times[(times > span.start) & (times < span.end)]
    return float(np.max(np.diff([span.start, *inside, span.end])))
