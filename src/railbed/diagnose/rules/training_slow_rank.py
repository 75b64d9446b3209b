"""One rank computes more slowly than the others.

What
----
A rank needed at least twice as long for its own part of a step, without waiting for the network, as the median of the
others for 15 seconds, or 1.3 times as long for a minute; it was also clearly slower than the slowest other, and the
difference was more than a tenth of a step.

Why
---
All others wait for it in every step. The network is innocent: the time was spent before the gradients were sent.

Fix
---
Look at the node: another program, a throttled processor or GPU, a slow slot. `railbed check governor gpu_inventory
pcie_bandwidth memory_available`. railbed shares the batch by measured speed if the recipe allows it (`shares: auto`).

Source
------
railbed's own measures of steps (docs/training-metrics.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.diagnose.shared.compare import middles
from railbed.diagnose.shared.steps import Work, place_of, work_of
from railbed.model.meters import SeriesKey
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import NotJudged, Rule
from railbed.rules.signal import Numbers, median_of
from railbed.rules.site import Site

LIMITS = ((2.0, 15.0), (1.3, 60.0))
"""How many times as long as the median of the others, and for how many seconds: a busy machine favours some."""
TO_SLOWEST = 0.6
"""The share of that difference by which it is slower than the slowest other."""
STEP_SHARE = 0.1
"""The difference, as a share of a usual step: less costs next to nothing."""


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the ranks' own time in each piece of time."""
    work = work_of(site)
    ranks, computed = work.computed.ranks, work.computed.values
    if len(ranks) < 2:
        raise NotJudged("there is only one rank")
    for row, rank in enumerate(ranks):
        rest = np.delete(computed, row, axis=0)
        others, slowest = middles(rest), np.nan_to_num(rest).max(axis=0)
        for span in _slow_times(work, computed[row], others, slowest):
            inside = work.computed.during(span)
            idle = site.run.try_signal(SeriesKey(rank.node, "idle_seconds", "", rank.rank))
            yield warn(
                f"rank {rank.rank} computed {duration(median_of(computed[row][inside]))} per step, the others "
                f"{duration(median_of(others[inside]))}",
                *([idle] if idle else []),
                span=span,
                subject=place_of(rank, ranks),
                expected="ranks compute equally fast",
            )


def _slow_times(work: Work, own: Numbers, others: Numbers, slowest: Numbers) -> list[Span]:
    """Return when a rank was slow, by the strictest limit that it exceeds."""
    matters = own - others > STEP_SHARE * work.usual_step
    for ratio, seconds in LIMITS:
        slow = matters & (own > ratio * others) & (own - slowest > TO_SLOWEST * (ratio - 1) * others)
        if spans := work.computed.where(slow, least=seconds):
            return spans
    return []


RULE = Rule(
    name="training_slow_rank",
    title="one rank computes slowly",
    scope="cluster",
    needs=("step_seconds", "allreduce_exposed_seconds"),
    judge=judge,
    doc=__doc__,
    yields_to=("gpu_throttled", "node_memory", "node_frozen"),
)
