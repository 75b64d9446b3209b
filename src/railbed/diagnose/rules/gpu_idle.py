"""GPUs are mostly idle during training.

What
----
While steps were taken, a GPU was busy for less than half as long as the median of the others, or all GPUs for less than
a third of the time, for 30 seconds or more.

Why
---
Something else is the bottleneck: data, network, checkpoints, or a processor that feeds the GPU too slowly. An idle GPU
beside busy ones often has no rank at all.

Fix
---
Other verdicts of this run may name the reason. `railbed report RUN` shows where the time of a step goes; compare the
ranks per node with its GPUs.

Source
------
NVIDIA, NVML: utilisation is the share of time with at least one kernel running.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.diagnose.shared.compare import at, middles, others_at
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import NotJudged, Rule, Unsampled
from railbed.rules.signal import Signal, Truths
from railbed.rules.site import Site

IDLE, RATIO = 1 / 3, 0.5
"""Share of the time for all GPUs, and of what the others are busy for one of them."""
LEAST_BUSY = 0.3
"""Below it all GPUs are idle, which is one verdict."""
LEAST_SECONDS = 30.0
"""Evaluations and checkpoints are shorter."""


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the GPUs with each other, and all of them with a third of the time."""
    busy = {(signal.series.device, signal.series.part): signal for signal in site.run.signals_of("gpu_busy")}
    if not busy:
        raise Unsampled("gpu_busy", "any node")
    steps = site.run.signals_of("step_seconds")
    if not steps:
        raise NotJudged("this was no training")
    training = Span(min(float(signal.times[0]) for signal in steps), max(float(signal.times[-1]) for signal in steps))
    first = next(iter(busy.values()))
    overall = Signal(
        first.series, first.meter, first.times, middles(np.array([at(first.times, it) for it in busy.values()]))
    )
    for span in _during(overall, overall.values < IDLE, training):
        observed = f"GPUs were busy {overall.mean(span) * 100:.0f} % of the time"
        yield warn(observed, overall, span=span, certainty="possible", subject="cluster", expected="busy GPUs")
    for (node, gpu), signal in busy.items():
        others = others_at((node, gpu), busy)
        lower = (signal.values < RATIO * others) & (others >= LEAST_BUSY)
        for span in _during(signal, lower, training):
            observed = f"GPU {gpu} was busy {signal.mean(span) * 100:.0f} % of the time, much less than the others"
            yield warn(observed, signal, span=span, subject=node, expected="as busy as the others")


def _during(signal: Signal, unusual: Truths, training: Span) -> list[Span]:
    return signal.where(unusual & signal.during(training), least=LEAST_SECONDS)


RULE = Rule(
    name="gpu_idle",
    title="GPUs are idle",
    scope="cluster",
    needs=("gpu_busy", "step_seconds"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("training_data", "training_checkpoint", "link_rail_slow", "node_frozen", "node_cut"),
)
