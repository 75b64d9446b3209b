"""Steps wait for checkpoints.

What
----
Around checkpoints the next step came at least a second late, and all these waits took more than 5 % of the time.

Why
---
A slow disk, or a file system that all nodes share, stops all ranks at every checkpoint.

Fix
---
Save less often (`--set checkpoint.steps=N`), or on a faster disk (`workdir` in the cluster file). `railbed bench
storage` measures the disks.

Source
------
railbed's own records of checkpoints and steps (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from railbed.diagnose.shared.steps import steps_of
from railbed.model.text import duration, plural
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import NotJudged, Rule
from railbed.rules.signal import join_spans, median_of
from railbed.rules.site import Site

LEAST_SECONDS = 1.0
LEAST_SHARE = 0.05
"""Of the time of the run; less is not worth a change."""
LEAST_STALLS = 2
"""A single one may have another reason."""
BRIDGE_SECONDS = 2.0
"""Marks closer together are of one checkpoint, which each node saves."""


def judge(site: Site) -> Iterator[Judgement]:
    """Look for late steps around checkpoints."""
    steps = steps_of(site, "step_seconds")
    marks = join_spans([Span(mark.time, mark.time) for mark in site.run.marks("checkpoint")], BRIDGE_SECONDS)
    if not marks:
        raise NotJudged("no checkpoint was saved")
    restarts = [mark.time for mark in site.run.marks("restart", "lost")]
    starts = site.run.timeline.starts()[1:]
    signal = max(steps.values(), key=lambda signal: len(signal.times))
    usual, all_time = median_of(np.diff(signal.times)), 0.0
    stalls: dict[Span, float] = {}
    for start, end in pairwise(signal.times):
        between = Span(float(start), float(end))
        if between.has_any(starts):
            continue  # the run was stopped
        all_time += between.seconds
        near = any(between.widen(usual).overlaps(mark) for mark in marks)
        if near and not between.has_any(restarts) and between.seconds - usual > max(LEAST_SECONDS, usual):
            stalls[between] = between.seconds - usual
    lost = sum(stalls.values())
    if len(stalls) >= LEAST_STALLS and lost > LEAST_SHARE * all_time:
        span = Span(min(stalls).start, max(stalls).end)
        yield warn(
            f"{plural(len(stalls), 'checkpoint')} held up the steps for {duration(lost)}, {lost / all_time:.0%} of the "
            f"time".replace("%", " %"),
            signal,
            span=span,
            expected="checkpoints are written beside the steps",
        )


RULE = Rule(
    name="training_checkpoint",
    title="steps wait for checkpoints",
    scope="cluster",
    needs=("step_seconds",),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("node_frozen", "node_cut"),
)
