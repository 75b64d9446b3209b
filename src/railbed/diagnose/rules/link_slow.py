"""The link of one node is slower than those of the others.

What
----
The queueing discipline of one node's rail interface holds packets back to keep a rate, much more than those of the
other nodes at the same time, and it sends less than at other times. Or the network took longer than usual for all
ranks of a training, and every node whose round trips took longer names this one as its slowest peer: packets wait in
front of it. A link that other programs use is not slow but shared (link_shared).

Why
---
An all-reduce goes around all nodes: its slowest link is the speed of the whole cluster, and every other node waits.

Fix
---
Find out what limits the interface: `tc -s qdisc show dev IF` on the node, and the negotiated speed with `railbed check
link_speed`. `railbed bench tcp` measures every pair, and shows whether only this node is slow.

Source
------
iproute2, tc-tbf and tc -s qdisc (overlimits: how often a packet had to wait for the rate; backlog: bytes that wait);
Linux, sock_diag (the smoothed round-trip time of a connection).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from railbed.diagnose.shared.compare import others_at, smooth
from railbed.diagnose.shared.foreign import foreign_on, usually_carried
from railbed.diagnose.shared.network import slow_network, slow_peer
from railbed.model.text import duration, number, size
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import NotJudged, Rule, Unsampled
from railbed.rules.signal import Signal, median_of
from railbed.rules.site import RailView

LEAST_RATE = 1.0
"""Packets per second that waited; at a low rate, a single packet of 64 KiB waits for a good part of a second."""
RATIO = 4.0
"""To the other nodes: each waits now and then when all send at once."""
LEAST_SECONDS, BRIDGE_SECONDS = 3.0, 4.0
BUSIER = 1.5
"""Times as much as the other nodes: packets of a node that sends more may wait on a link that is as fast as theirs."""
SLOWED, COMPARABLE = 0.9, 0.5
"""A link that carries at least the first share of what it usually does is full; less than the second share of that is
sent before a training begins, and in its pauses."""


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare how often packets waited on each node of a rail, then how long they waited in front of each."""
    if len(rail.ports) < 2:
        raise NotJudged("there is only one node")
    waits = rail.signals("qdisc_overlimits")
    explained: list[Span] = []
    for node, signal in waits.items():
        others = np.nan_to_num(smooth(others_at(node, waits)))
        waited = (signal.values > RATIO * others) & (smooth(signal.values) >= np.maximum(LEAST_RATE, RATIO * others))
        for span in signal.where(waited, least=LEAST_SECONDS, bridge=BRIDGE_SECONDS):
            if _is_full(rail, node, span):
                continue
            explained.append(span)
            usual = float(np.mean(others[signal.during(span)]))
            yield fail(
                f"packets waited for the link {number(signal.mean(span), 3)} times per second, on the other nodes "
                f"{number(usual, 2)}{_rate(rail, node, span)}",
                signal,
                *_backlog(rail, node),
                span=span,
                certainty="certain" if _is_slower(rail, node, span) else "likely",
                subject=f"{node}/{signal.series.port}",
                expected="as fast as the links of the other nodes",
            )
    yield from _judge_peers(rail, explained)


def _judge_peers(rail: RailView, explained: Sequence[Span]) -> Iterator[Judgement]:
    """Find the node that packets wait in front of while all ranks wait for the network."""
    with suppress(Unsampled):  # no training
        for slow in slow_network(rail.site):
            peer = slow_peer(rail, slow.span)
            if peer is None or any(slow.span.overlaps(span) for span in explained):
                continue
            if _receives_foreign(rail, peer.node, slow.span):
                continue
            yield fail(
                f"round trips from {peer.sender.series.device} took {duration(peer.seconds)}, usually "
                f"{duration(peer.usual)}; ranks waited {duration(slow.seconds)} per step for the network, usually "
                f"{duration(slow.usual)}",
                peer.sender,
                span=slow.span,
                subject=f"{peer.node}/{peer.netdev}",
                expected="as fast as the links of the other nodes",
            )


def _is_full(rail: RailView, node: str, span: Span) -> bool:
    """Whether a node sent more than the others, or as much as at other times; False if that is not known."""
    sent = rail.try_signals("net_tx_bytes")
    if node not in sent:
        return False
    signal, mean = sent[node], sent[node].mean(span)
    inside = signal.during(span)
    usual = signal.values[~inside & (signal.values >= COMPARABLE * mean)]
    if len(usual) * signal.interval >= LEAST_SECONDS and mean >= SLOWED * median_of(usual):
        return True
    return mean > BUSIER * median_of(others_at(node, sent)[inside])


def _is_slower(rail: RailView, node: str, span: Span) -> bool:
    """Whether a link of the rail carried more in this run; True if that is not known."""
    sent = rail.try_signals("net_tx_bytes")
    return node not in sent or any(
        signal.mean(span) < SLOWED * float(np.nanmax(smooth(signal.values), initial=0.0)) for signal in sent.values()
    )


def _receives_foreign(rail: RailView, node: str, span: Span) -> bool:
    """Whether packets wait in front of a node because of other programs."""
    (port,) = (port for port in rail.ports if port.node.name == node)
    with suppress(NotJudged):
        return any(foreign.span.overlaps(span) for foreign in foreign_on(port, "rx", usually_carried(rail)))
    return False


def _rate(rail: RailView, node: str, span: Span) -> str:
    sent = rail.try_signals("net_tx_bytes").get(node)
    return f"; it sent {size(sent.mean(span))}/s" if sent else ""


def _backlog(rail: RailView, node: str) -> list[Signal]:
    backlog = rail.try_signals("qdisc_backlog_bytes").get(node)
    return [backlog] if backlog else []


RULE = Rule(
    name="link_slow",
    title="one node's link is slow",
    scope="rail",
    needs=("qdisc_overlimits",),
    judge=judge,
    doc=__doc__,
    yields_to=("link_shared",),
)
