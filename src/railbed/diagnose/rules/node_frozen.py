"""A node stopped: it froze, lost power, or its kernel hung.

What
----
No sample came from a node for several seconds while most of the others were sampled, and training lost the node
in the same time.

Why
---
All ranks wait for the one that does not answer, until it is given up and training starts again from the last
checkpoint without it.

Fix
---
If the node has a BMC in the cluster file, the verdict has what it reported: power, faults, event log. Look at the
node's console and `journalctl -k` for that time: a hung kernel, an out-of-memory kill, a power supply.
`railbed check reachable memory_available` shows whether it is back.

Source
------
railbed's own sampling and heartbeats (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import bmc_report, reason_for_loss
from railbed.diagnose.shared.steps import is_only_silent, parts_of, sampled_times, silences
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import NotJudged, Rule, Unsampled
from railbed.rules.signal import Signal
from railbed.rules.site import NodeView

LEAST_SECONDS = 4.0
"""As long as training waits for a sign of life."""
NOTICED_SECONDS = 30.0
"""How long training may take to notice, at most."""


def judge(node: NodeView) -> Iterator[Judgement]:
    """Find silences of one node that training noticed as well."""
    site = node.site
    others = [sampled_times(site, other.name) for other in site.nodes if other.name != node.name]
    if not others:
        raise NotJudged("there is only one node")
    times = sampled_times(site, node.name)
    if not len(times):
        raise Unsampled("any series", node.name)
    *earlier, last = parts_of(site)
    end = max(float(moments[-1]) for moments in (times, *others) if len(moments))
    for span in silences(times, LEAST_SECONDS, [*earlier, Span(last.start, end)]):
        reason = reason_for_loss(site, node.name, span, NOTICED_SECONDS)
        if reason and is_only_silent(span, others):
            report = bmc_report(site, node.name, span)
            lost = f"nothing came from the node for {duration(span.seconds)}, and training lost it: {reason}"
            yield fail(
                f"{lost}; {report}" if report else lost,
                *_sample(node),
                span=span,
                certainty="certain",
                expected="the node answers",
            )


def _sample(node: NodeView) -> list[Signal]:
    ports = [port.try_signal("net_rx_bytes") for port in node.ports]
    return [signal for signal in ports if signal is not None][:1]


RULE = Rule(
    name="node_frozen",
    title="a node stopped",
    scope="node",
    needs=(),
    judge=judge,
    doc=__doc__,
)
