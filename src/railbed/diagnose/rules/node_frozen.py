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
Look at the node's console and `journalctl -k` for that time: a hung kernel, an out-of-memory kill, a power supply.
`railbed check reachable memory_available` shows whether it is back.

Source
------
railbed's own sampling and heartbeats (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.evidence import SampledNode, Unsampled
from railbed.diagnose.shared.steps import is_only_silent, parts_of, sampled_times, silences
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import NotJudged, Rule
from railbed.rules.signal import Signal
from railbed.store.timeline import Mark

LEAST_SECONDS = 4.0
"""As long as training waits for a sign of life."""
NOTICED_SECONDS = 30.0
"""How long training may take to notice, at most."""


def judge(node: SampledNode) -> Iterator[Judgement]:
    """Find silences of one node that training noticed as well."""
    evidence = node.evidence
    others = [sampled_times(evidence, other.name) for other in evidence.nodes if other.name != node.name]
    if not others:
        raise NotJudged("there is only one node")
    times = sampled_times(evidence, node.name)
    if not len(times):
        raise Unsampled("any series", node.name)
    *earlier, last = parts_of(evidence)
    end = max(float(moments[-1]) for moments in (times, *others) if len(moments))
    for span in silences(times, LEAST_SECONDS, [*earlier, Span(last.start, end)]):
        noticed = _noticed(node, span)
        if noticed is not None and is_only_silent(span, others):
            yield fail(
                f"nothing came from the node for {duration(span.seconds)}, and training lost it: {_reason(noticed)}",
                *_sample(node),
                span=span,
                certainty="certain",
                expected="the node answers",
            )


def _noticed(node: SampledNode, span: Span) -> Mark | None:
    """Return the mark of the training that lost this node in a time."""
    wide = Span(span.start - 1.0, span.end + NOTICED_SECONDS)
    marks = (mark for mark in node.evidence.marks("lost", "restart") if wide.start <= mark.time <= wide.end)
    return next((mark for mark in marks if mark.subject.partition("/")[0] == node.name), None)


def _reason(mark: Mark) -> str:
    return mark.text.removeprefix(f"{mark.subject}: ")


def _sample(node: SampledNode) -> list[Signal]:
    ports = [port.try_read("net_rx_bytes") for port in node.ports]
    return [signal for signal in ports if signal is not None][:1]


RULE = Rule(
    name="node_frozen",
    title="a node stopped",
    scope="node",
    needs=(),
    judge=judge,
    doc=__doc__,
)
