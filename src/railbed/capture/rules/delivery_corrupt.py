"""Packets are damaged on the way.

What
----
The invariant CRC (ICRC) of packets does not fit their content. Judged only if whole packets were recorded, and after
the ICRC was computed: some recorders at the sender see packets before that.

Why
---
The ICRC covers a packet from end to end. If it is wrong where each link's own CRC was right, a device between changed
the packet: a switch, a card, or memory. The receiver drops it, and the sender repeats.

Fix
---
Record both ends of the path to see where packets change: `railbed capture --full`. Update the firmware of the
device between, or replace it; `railbed check rdma_errors` shows `rx_icrc_encapsulated`.

Source
------
InfiniBand architecture, 7.8.1 and annex A17 (ICRC); NVIDIA, rx_icrc_encapsulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.capture.analysis.results import FlowView
from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule


def judge(path: PathView) -> Iterator[Judgement]:
    """Count wrong checksums where packets were recorded with them."""
    views = [view for view in path.views() if view.checksums.known]
    if not views:
        raise NotJudged(f"no complete packets from {path.sender} to {path.receiver} were recorded")
    computed = [view for view in views if view.checksums.is_computed]
    if not computed:
        known = sum(view.checksums.known for view in views)
        mismatched = sum(len(view.checksums.mismatched) for view in views)
        raise NotJudged(f"{mismatched:,} of {known:,} checksums do not fit: packets were recorded before it is written")
    wrong = [view for view in computed if len(view.checksums.wrong)]
    if wrong:
        known = sum(view.checksums.known for view in computed)
        count = sum(len(view.checksums.wrong) for view in wrong)
        yield fail(
            f"the checksum (ICRC) of {count:,} of {known:,} packets is wrong",
            *(proof_of(view, view.checksums.wrong) for view in wrong[:3]),
            certainty="certain",
            expected="packets arrive as they were sent",
            remedy=_at_both_ends(path, wrong) if path.has_both_ends else "",
        )


def _at_both_ends(path: PathView, wrong: Sequence[FlowView]) -> str:
    """Return what to do if it is known whether packets were damaged before they left."""
    if any(view.end == "sender" for view in wrong):
        return f"packets leave {path.sender} damaged: update the firmware of its card, or replace it"
    return (
        f"packets leave {path.sender} intact and arrive damaged: update the firmware of the switches between, or "
        "replace them; `railbed check rdma_errors` shows `rx_icrc_encapsulated`"
    )


RULE = Rule(
    name="delivery_corrupt",
    title="packets are damaged on the way",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
)
