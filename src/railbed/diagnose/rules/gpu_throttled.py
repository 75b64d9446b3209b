"""A GPU runs below its clock.

What
----
A busy GPU had a clock of less than 80 % of what it reached in the same run, for five seconds or more.

Why
---
A GPU that is too hot, or at its power limit, slows down, and all ranks wait for it.

Fix
---
Look at temperature and power in the evidence; `nvidia-smi -q -d PERFORMANCE` names the reason. Clean the air path, or
set the same power limit on all nodes; `railbed check gpu_inventory` compares the GPUs.

Source
------
NVIDIA, NVML: clocks and clock event reasons.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.diagnose.shared.compare import at
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.site import NodeView

BUSY = 0.8
"""A GPU with less to do lowers its clock on purpose."""
SLOW = 0.8
"""Of its usual clock: boost clocks vary somewhat."""
FAST_PERCENTILE = 90
LEAST_SECONDS = 5.0


def judge(node: NodeView) -> Iterator[Judgement]:
    """Compare each GPU's clock with what it reached while busy."""
    gpus = [series.part for series in node.site.run.series_of("gpu_clock") if series.device == node.name]
    if not gpus:
        raise Unsampled("gpu_clock", node.name)
    for gpu in gpus:
        clock, busy = node.signal("gpu_clock", gpu), node.signal("gpu_busy", gpu)
        working = at(clock.times, busy) >= BUSY
        if not working.any():
            continue
        fast = float(np.nanpercentile(clock.values[working], FAST_PERCENTILE))
        for span in clock.where(working & (clock.values < SLOW * fast), least=LEAST_SECONDS):
            others = [node.try_signal(meter, gpu) for meter in ("gpu_temperature", "gpu_power")]
            yield warn(
                f"GPU {gpu} ran at {clock.mean(span):,.0f} MHz, otherwise at {fast:,.0f} MHz",
                clock,
                *(signal for signal in others if signal),
                span=span,
                certainty="certain",
                expected="its usual clock",
            )


RULE = Rule(
    name="gpu_throttled",
    title="a GPU is throttled",
    scope="node",
    needs=("gpu_clock", "gpu_busy"),
    judge=judge,
    doc=__doc__,
)
