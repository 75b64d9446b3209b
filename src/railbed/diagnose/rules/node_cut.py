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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from railbed.diagnose.shared.compare import reason_for_loss
from railbed.diagnose.shared.steps import CHANGES, Outage, describe, episodes, outages, span_of
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal
from railbed.rules.site import PortView, Site

TOGETHER_SECONDS = 3.0
"""Links that one fault took down are sampled as down within this time."""
NOTICED_SECONDS = 60.0
"""How long training may take to give up the node, at most."""


class _Link(NamedTuple):
    """The link of a port."""

    changes: Signal
    outages: list[Outage]


Links = Mapping[str, _Link]
"""By the port's subject."""


def judge(site: Site) -> Iterator[Judgement]:
    """Group links that went down together, by rail and by node."""
    links = {
        port.subject: _Link(changes, outages(port))
        for node in site.nodes
        for port in node.ports
        if (changes := port.try_signal(CHANGES))
    }
    if not links:
        raise Unsampled(CHANGES, "any port")
    rails: list[tuple[str, Span]] = []
    for rail in site.rails:
        of_rail = _of(rail.ports, links)
        if len(of_rail) < 2 or len(of_rail) < len(rail.ports):
            continue
        for episode in _together(of_rail):
            rails.append((rail.name, span_of(episode)))
            were = describe(episode, of_rail[0].changes.interval, "were")
            observed = f"the links of all {len(of_rail)} nodes {were}"
            yield fail(
                observed,
                of_rail[0].changes,
                span=span_of(episode),
                certainty="certain",
                subject=rail.name,
                expected="links are up",
            )
    for node in site.nodes:
        yield from _judge_node(site, node.name, _of(node.ports, links), rails)


def _of(ports: Iterable[PortView], links: Links) -> list[_Link]:
    return [links[port.subject] for port in ports if port.subject in links]


def _judge_node(
    site: Site, node: str, links: Sequence[_Link], rails: Sequence[tuple[str, Span]]
) -> Iterator[Judgement]:
    for episode in _together(links):
        span = span_of(episode)
        if any(span.overlaps(other.widen(TOGETHER_SECONDS)) for _, other in rails):
            continue
        reason = reason_for_loss(site, node, span, NOTICED_SECONDS)
        if len(links) < 2 and not reason:
            continue  # a single link that went down: link_flap
        yield fail(
            _describe_outage(episode, links) + (f", and training lost the node: {reason}" if reason else ""),
            *(link.changes for link in links[:2]),
            span=span,
            certainty="certain",
            subject=node,
            expected="links are up",
        )


def _describe_outage(episode: Sequence[Outage], links: Sequence[_Link]) -> str:
    usual = links[0].changes.interval
    if len(links) == 1:
        return f"its only rail link {describe(episode, usual)}"
    return f"all {len(links)} rail links {describe(episode, usual, 'were')}"


def _together(links: Sequence[_Link]) -> list[list[Outage]]:
    """Return the episodes in which all links were down."""
    if not links:
        return []
    first, *others = links
    common = [
        outage
        for outage in first.outages
        if all(any(_alike(outage.span, other.span) for other in link.outages) for link in others)
    ]
    return episodes(common)


def _alike(first: Span, second: Span) -> bool:
    return abs(first.start - second.start) <= TOGETHER_SECONDS


RULE = Rule(
    name="node_cut",
    title="a node or rail was cut off",
    scope="cluster",
    needs=(CHANGES,),
    judge=judge,
    doc=__doc__,
    yields_to=("node_frozen", "path_changed"),
)
