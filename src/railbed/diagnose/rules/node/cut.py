"""A node, or a rail, was cut off.

What
----
All rail links of a node went down at the same time while the node itself was still sampled; or the links of all nodes
on a rail did. With a single rail, training must have lost the node at that time.

Why
---
The node computes and nobody receives its gradients: training waits until it is given up, and starts again.

Fix
---
Look at what the links have in common: the cable bundle, the switch or its line card, the node's network configuration.
`railbed check link_up switch_link reachable` shows the state now.

Source
------
Linux kernel documentation, sysfs-class-net (`carrier_changes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.diagnose.evidence import Evidence, NotMeasured, PortView
from railbed.diagnose.rule import Judgement, Rule, fail
from railbed.diagnose.shared.outages import outages
from railbed.diagnose.signal import Signal, Span, merged
from railbed.model.text.amount import duration

TOGETHER_SECONDS = 3.0
"""Links that one fault took down are sampled as down within this time."""
NOTICED_SECONDS = 60.0
"""How long training may take to give up the node, at most."""
Down = dict[str, tuple[PortView, Signal, list[Span]]]


def judge(evidence: Evidence) -> Iterator[Judgement]:
    """Group links that went down together, by rail and by node."""
    down: Down = {}
    for port in (port for node in evidence.nodes for port in node.ports):
        if changes := port.try_read("net_carrier_changes"):
            down[port.subject] = port, changes, outages(port, changes)
    if not down:
        raise NotMeasured("net_carrier_changes", "any port")
    rails: list[tuple[str, Span]] = []
    for rail in evidence.rails:
        ports = [down[port.subject] for port in rail.ports if port.subject in down]
        if len(ports) < 2 or len(ports) < len(rail.ports):
            continue
        for span in _together([spans for _, _, spans in ports]):
            rails.append((rail.name, span))
            observed = f"the links of all {len(ports)} nodes were down for {duration(span.seconds)}"
            yield fail(observed, span, ports[0][1], certainty="certain", subject=rail.name, expected="links are up")
    for node in evidence.nodes:
        yield from _judge_node(
            evidence, node.name, [down[port.subject] for port in node.ports if port.subject in down], rails
        )


def _judge_node(
    evidence: Evidence,
    node: str,
    ports: Sequence[tuple[PortView, Signal, list[Span]]],
    rails: Sequence[tuple[str, Span]],
) -> Iterator[Judgement]:
    for span in _together([spans for _, _, spans in ports]):
        if any(span.overlaps(other.widened(TOGETHER_SECONDS)) for _, other in rails):
            continue
        reason = _noticed(evidence, node, span)
        if len(ports) < 2 and not reason:
            continue  # a single link that went down: link_flap
        yield fail(
            f"{_links(len(ports))} down for {duration(span.seconds)}"
            + (f", and training lost the node: {reason}" if reason else ""),
            span,
            *(signal for _, signal, _ in ports[:2]),
            certainty="certain",
            subject=node,
            expected="links are up",
        )


def _links(count: int) -> str:
    return "its only rail link was" if count == 1 else f"all {count} rail links were"


def _together(outages_by_port: Sequence[list[Span]]) -> list[Span]:
    """Return the times in which all ports were down."""
    if not outages_by_port:
        return []
    first, *others = outages_by_port
    common = []
    for span in first:
        matching = [next((other for other in spans if _alike(span, other)), None) for spans in others]
        if all(matching):
            common.append(span)
    return merged(common, TOGETHER_SECONDS)


def _alike(first: Span, second: Span) -> bool:
    return abs(first.start - second.start) <= TOGETHER_SECONDS


def _noticed(evidence: Evidence, node: str, span: Span) -> str:
    marks = [
        mark.text.removeprefix(f"{mark.subject}: ")
        for mark in evidence.marks("lost", "restart")
        if mark.subject.partition("/")[0] == node and -1.0 <= mark.time - span.start <= span.seconds + NOTICED_SECONDS
    ]
    return marks[0] if marks else ""


RULE = Rule(
    name="node_cut",
    title="a node or rail was cut off",
    scope="cluster",
    needs=("net_carrier_changes",),
    judge=judge,
    doc=__doc__,
    yields_to=("node_frozen",),
)
