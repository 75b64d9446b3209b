"""A clock jumped.

What
----
The clock of a device jumped while it was sampled.

Why
---
Logs of that node no longer agree with the others', certificates and leases may expire, and a time series has samples
from the wrong time. railbed corrects its own by measuring the offset again.

Fix
---
Synchronise all nodes with the same service and let it slew instead of step: `railbed check clock_synchronised
clock_offset`.

Source
------
chrony, makestep; railbed's own measure of offsets (docs/diagnose.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import Rule
from railbed.rules.site import Site


def judge(site: Site) -> Iterator[Judgement]:
    """Report each jump that sampling noticed."""
    for mark in site.run.marks("clock"):
        span = Span(mark.time, mark.time)
        yield warn(mark.text, span=span, certainty="certain", subject=mark.subject, expected="a steady clock")


RULE = Rule(
    name="node_clock",
    title="a clock jumped",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
)
