"""TCP had to send segments again: a link or a rail loses packets.

What
----
For several seconds, nodes sent more than 1 % of their TCP segments again, at least five per second, and at least four
times as many as usual in this run. The directions in which segments are lost are named (`node2 → node1`), as far as
the nodes count what they send to each other. If all of them begin or end at one node, its link is named; if not, the
rail that carried the traffic. Segments that had arrived, as their receiver reports (DSACK), do not count: TCP sends
them again if an acknowledgement is late, as on a slow rail or between busy nodes.

Why
---
TCP halves its rate with each loss, and waits for at least 200 ms if the last packets of a message are lost: an
all-reduce consists of short messages and waits for the slowest of them. Loss in one direction only is the sender's
transmitter, the receiver's, or a queue or filter between them: the cable as a whole would lose both ways.

Fix
---
Look for errors on cables and drops in queues: `railbed check net_errors switch_counters`, and measure every pair with
`railbed bench tcp`, which also shows retransmits.

Source
------
RFC 2883, 5681, 6298 and 8985; Linux, /proc/net/snmp (RetransSegs, OutSegs), /proc/net/netstat (TCPDSACKRecvSegs) and
`struct tcp_info` of each connection (tcpi_total_retrans, tcpi_data_segs_out, tcpi_dsack_dups).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from railbed.diagnose.shared.compare import at, smooth
from railbed.diagnose.shared.network import PeerTraffic, busiest_rail, directions, lossy_directions, name_losses
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal, join_spans, median_of
from railbed.rules.site import Site

LEAST_RATE, LEAST_SHARE = 5.0, 0.01
"""Segments per second, and share of all segments."""
LEAST_SECONDS, BRIDGE_SECONDS = 3.0, 3.0
RATIO = 4.0
"""To what is usual in this run, or on the other nodes."""


def judge(site: Site) -> Iterator[Judgement]:
    """Compare segments that were sent again with all segments, on every node."""
    again = {signal.series.device: signal for signal in site.run.signals_of("tcp_retransmits")}
    sent = {signal.series.device: signal for signal in site.run.signals_of("tcp_segments_sent")}
    if not again or not sent:
        raise Unsampled("tcp_retransmits", "any node")
    needless = {signal.series.device: signal for signal in site.run.signals_of("tcp_needless")}
    lost = {node: _subtract_needless(signal, needless.get(node)) for node, signal in again.items() if node in sent}
    limit = max(LEAST_SHARE, RATIO * median_of([_usual(signal, sent[node]) for node, signal in lost.items()]))
    episodes = {node: _episodes(signal, sent[node], limit) for node, signal in lost.items()}
    for span in join_spans((span for spans in episodes.values() for span in spans), BRIDGE_SECONDS):
        shares = {node: lost[node].total(span) / max(1.0, sent[node].total(span)) for node in episodes}
        losing = [node for node, spans in episodes.items() if any(span.overlaps(other) for other in spans)]
        sent_to = directions(site, span)
        lossy = lossy_directions(sent_to, limit)
        place = _end(lossy) or _place(site, shares, losing, span)
        where = f"; loss {name_losses(lossy, sent_to)}" if lossy else ""
        most = max(losing, key=lambda node: shares[node])
        total = sum(lost[node].total(span) for node in losing)
        yield fail(
            f"{total:,.0f} TCP segments were sent again, up to {shares[most] * 100:.1f} % ({most}){where}",
            *(again[node] for node in losing[:4]),
            span=span,
            certainty="likely" if lossy or len(losing) > 1 or len(episodes) == 1 else "possible",
            subject=place,
            expected="less than 1 % is sent again",
        )


def _subtract_needless(again: Signal, needless: Signal | None) -> Signal:
    """Return the segments that were sent again and had not arrived; a report of those that had may be a sample late."""
    if needless is None:
        return again
    around, arrived = smooth(again.values), smooth(np.nan_to_num(at(again.times, needless)))
    return replace(again, values=again.values * np.clip(1.0 - arrived / np.maximum(around, 1e-9), 0.0, 1.0))


def _usual(lost: Signal, sent: Signal) -> float:
    """Return the share of a run that had no more than a few lossy seconds."""
    shares = smooth(lost.values) / np.maximum(1.0, smooth(at(lost.times, sent)))
    return median_of(shares)


def _episodes(lost: Signal, sent: Signal, limit: float) -> list[Span]:
    repeats, segments = smooth(lost.values), smooth(at(lost.times, sent))
    lossy = (repeats >= LEAST_RATE) & (repeats >= limit * np.nan_to_num(segments, nan=np.inf))
    lossy &= lost.values >= limit * np.nan_to_num(at(lost.times, sent), nan=np.inf)
    return lost.where(lossy, least=LEAST_SECONDS, bridge=BRIDGE_SECONDS)


def _end(lossy: Sequence[PeerTraffic]) -> str:
    """Return the only node that all lossy directions begin at, or end at; empty if there is none."""
    senders, receivers = {way.sender for way in lossy}, {way.receiver for way in lossy}
    return senders.pop() if len(senders) == 1 else receivers.pop() if len(receivers) == 1 else ""


def _place(site: Site, shares: Mapping[str, float], losing: list[str], span: Span) -> str:
    """Return the node that sets itself apart, or the rail."""
    rail = busiest_rail(site, span)
    worst = max(losing, key=lambda node: shares[node])
    others = [share for node, share in shares.items() if node != worst]
    if len(losing) == 1 and others and shares[worst] > RATIO * float(np.median(others)):
        return worst
    return rail.name if rail else "cluster"


RULE = Rule(
    name="link_lossy",
    title="TCP sends segments again",
    scope="cluster",
    needs=("tcp_retransmits", "tcp_segments_sent"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("node_frozen", "node_cut", "link_slow", "link_flap", "link_shared", "path_changed"),
)
