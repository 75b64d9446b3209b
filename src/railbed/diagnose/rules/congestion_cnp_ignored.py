"""Senders do not react to congestion notifications.

What
----
Receivers of a rail sent notifications (CNP), and the senders handled fewer than a tenth of them, or count that they
ignored them.

Why
---
DCQCN works only if senders slow down. If they do not, every congestion ends in pauses, or in loss: either the reaction
is off on the card, or CNPs are lost because they have no priority of their own.

Fix
---
Turn DCQCN on for the lossless priority and give CNPs their own queue: `railbed check dcqcn cnp_dscp switch_cnp`, and
`railbed configure` for the changes.

Source
------
NVIDIA, rp_cnp_handled, rp_cnp_ignored, np_cnp_sent; prometheus node_exporter: rp_cnp_ignored should not rise while
congestion control is enabled.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import growths
from railbed.rules.judgement import Judgement, Span, fail, warn
from railbed.rules.rule import Rule
from railbed.rules.signal import join_spans, sum_growth
from railbed.rules.site import RailView

LEAST_NOTIFICATIONS = 100
"""Fewer say little about a share."""
LEAST_SHARE = 0.1
"""A receiver may send several before the first one has slowed the sender down."""


def judge(rail: RailView) -> Iterator[Judgement]:
    """Compare notifications sent with notifications handled; a card that counts ignored ones is named."""
    sent, handled = rail.signals("rdma_cnp_sent"), rail.signals("rdma_cnp_handled")
    blamed: list[Span] = []
    for port in rail.ports:
        ignored = port.try_signal("rdma_cnp_ignored")
        for span, _ in growths([ignored] if ignored else [], least=LEAST_NOTIFICATIONS):
            blamed.append(span)
            observed = f"the card ignored {ignored.total(span) if ignored else 0:,.0f} congestion notifications (CNP)"
            yield fail(observed, *([ignored] if ignored else []), span=span, certainty="certain", subject=port.subject)
    for span in join_spans(span for signal in sent.values() for span in signal.above(0.0)):
        total, acted = sum_growth(list(sent.values()), span), sum_growth(list(handled.values()), span.widen(2.0))
        if total < LEAST_NOTIFICATIONS or acted >= LEAST_SHARE * total or any(span.overlaps(it) for it in blamed):
            continue
        most = max(sent.values(), key=lambda signal: signal.total(span))
        yield warn(
            f"{total:,.0f} congestion notifications (CNP) were sent, mostly by {most.series.device}; senders handled "
            f"{acted:,.0f}",
            most,
            *handled.values(),
            span=span,
            expected="senders handle the notifications that receivers send",
        )


RULE = Rule(
    name="congestion_cnp_ignored",
    title="senders do not react to notifications",
    scope="rail",
    needs=("rdma_cnp_sent", "rdma_cnp_handled"),
    judge=judge,
    doc=__doc__,
)
