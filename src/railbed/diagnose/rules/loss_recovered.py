"""Packets were lost, and the cards recovered.

What
----
On a rail, packets arrived out of sequence and were sent again, and no connection gave up. Receivers count what they
missed and senders what they repeated: if one node counts most of each, the way between them is named (`node2 → node1`).

Why
---
A lossless fabric loses nothing, so something is wrong, even if training goes on: each lost packet makes the card repeat
everything sent since (go-back-N), and a lost last packet costs a time-out of milliseconds to seconds.

Fix
---
Find where packets are lost: `railbed check rdma_errors net_errors switch_counters pfc switch_pfc`, and `railbed check
--prove path` for the mark. Drops on one port only mean its cable or its PFC.

Source
------
NVIDIA, out_of_sequence, packet_seq_err, roce_adp_retrans; Guo et al., SIGCOMM 2016 (go-back-N).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from railbed.diagnose.shared.compare import growths
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal, sum_growth
from railbed.rules.site import RailView

LEAST_PACKETS = 10
"""A few may be lost when links come up."""
MOST = 0.8
"""Share of the lost packets from which one port is blamed."""


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare what receivers missed with what senders repeated."""
    missed = rail.try_signals("rdma_out_of_sequence")
    if not missed:
        raise Unsampled("rdma_out_of_sequence", rail.name)
    repeated = [*rail.try_signals("rdma_sequence_naks").values(), *rail.try_signals("rdma_retransmits").values()]
    for span, grown in growths(list(missed.values()), least=LEAST_PACKETS):
        total, again = sum_growth(grown, span), sum_growth(repeated, span.widen(2.0))
        worst = max(grown, key=lambda signal: signal.total(span))
        at_worst = worst.total(span) >= MOST * total and len(rail.ports) > 2
        yield warn(
            f"{total:,.0f} packets arrived out of sequence{_again(repeated, again)}"
            f"{_direction(_most_of(repeated, span.widen(2.0)), _most_of(grown, span))}",
            *sorted(grown, key=lambda signal: -signal.total(span))[:2],
            span=span,
            certainty="certain" if again else "likely",
            subject=f"{worst.series.device}/{worst.series.port}" if at_worst else "",
            expected="no packet is lost",
        )


def _again(repeated: list[Signal], count: float) -> str:
    return f"; senders counted {count:,.0f} repeats" if repeated else "; senders do not count repeats"


def _most_of(signals: Sequence[Signal], span: Span) -> str:
    """Return the node that counted most of something; empty if there is none."""
    counts: Counter[str] = Counter()
    for signal in signals:
        counts[signal.series.device] += round(signal.total(span))
    node, most = max(counts.items(), key=lambda item: item[1], default=("", 0))
    return node if most and most >= MOST * counts.total() else ""


def _direction(sender: str, receiver: str) -> str:
    """Return the way on which packets were lost, as far as the counts of senders and receivers show it."""
    if sender and receiver and sender != receiver:
        return f"; loss {sender} → {receiver}"
    return f"; loss on the way to {receiver}" if receiver else ""


RULE = Rule(
    name="loss_recovered",
    title="packets were lost and sent again",
    scope="rail",
    needs=("rdma_out_of_sequence",),
    judge=judge,
    doc=__doc__,
    yields_to=("link_flap", "link_cable", "path_corrupt", "path_peer_dead"),
    yields_anywhere=("pause_host_off", "pause_off", "loss_lossless_queue", "node_cut"),
)
