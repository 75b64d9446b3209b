"""A device was not sampled for a while.

What
----
No sample came from a node or switch for ten seconds or more, and training did not lose it. If all devices fell silent
at once, it was the machine that samples.

Why
---
What happened in that time is not known, and no rule can judge it. It may be harmless, such as a restarted SSH server,
or the only trace of an overloaded machine.

Fix
---
The events of the run have the reason: `railbed watch RUN`. `railbed check reachable clock_offset` shows whether the
device answers now.

Source
------
railbed's own sampling (docs/diagnose.md).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.diagnose.shared.compare import bmc_report
from railbed.diagnose.shared.steps import is_only_silent, parts_of, sampled_times, silences
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.site import Site

LEAST_SECONDS, LEAST_OF_ALL = 10.0, 20.0
"""Of one device, and of all: a busy machine that samples stands still for longer."""
GAP_PREFIX = "no samples: "


def judge(site: Site) -> Iterator[Judgement]:
    """Find gaps of each device, and of all."""
    names = (*site.cluster.nodes, *site.cluster.switches)
    times = {name: sampled_times(site, name) for name in names}
    sampled = {name: moments for name, moments in times.items() if len(moments) > 1}
    if not sampled:
        raise Unsampled("any series", "any device")
    together = np.unique(np.concatenate(list(sampled.values())))
    *earlier, last = parts_of(site)
    parts = [*earlier, Span(last.start, float(together[-1]))]
    for span in silences(together, LEAST_OF_ALL, parts):
        yield warn(
            f"no device was sampled for {duration(span.seconds)}", span=span, certainty="certain", subject="cluster"
        )
    for name, moments in sampled.items():
        others = [other for key, other in sampled.items() if key != name]
        for span in silences(moments, LEAST_SECONDS, parts):
            if not others or is_only_silent(span, others):
                reason = _reason(site, name, span)
                observed = f"not sampled for {duration(span.seconds)}{f': {reason}' if reason else ''}"
                if report := bmc_report(site, name, span):
                    observed = f"{observed}; {report}"
                yield warn(observed, span=span, certainty="certain", subject=name, expected="sampled without gaps")


def _reason(site: Site, device: str, span: Span) -> str:
    near = span.widen(2.0)
    marks = (mark for mark in site.run.marks("gap") if mark.subject == device and near.start <= mark.time <= near.end)
    return next((mark.text.removeprefix(GAP_PREFIX) for mark in marks), "")


RULE = Rule(
    name="node_silent",
    title="a device was not sampled",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
    yields_to=("node_frozen", "node_clock"),
)
