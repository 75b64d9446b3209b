"""Packets are damaged on the way.

What
----
The invariant CRC (ICRC) of packets does not fit their content. Judged only if whole packets were recorded.

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

from collections.abc import Iterator

from railbed.capture.packets import Icrc
from railbed.capture.proof import proof_of
from railbed.capture.rule import Judgement, NotJudged, Rule, fail
from railbed.capture.subjects import PathView

MOST_SHARE = 0.5
"""If most are wrong, the recorder sits before the place where the ICRC is made, or something rewrites addresses."""


def judge(path: PathView) -> Iterator[Judgement]:
    """Count wrong checksums among those that were recorded."""
    views = list(path.views())
    known = sum(int((view.view.column("icrc") != Icrc.NOT_CAPTURED).sum()) for view in views)
    wrong = [view for view in views if len(view.wrong_checksums)]
    count = sum(len(view.wrong_checksums) for view in wrong)
    if not known:
        raise NotJudged(f"no complete packets from {path.sender} to {path.receiver} were recorded")
    if count > MOST_SHARE * known:
        raise NotJudged(f"{count:,} of {known:,} checksums do not fit: packets were recorded before it is written")
    if count:
        yield fail(
            f"the checksum (ICRC) of {count:,} of {known:,} packets is wrong",
            *(proof_of(view, view.wrong_checksums) for view in wrong[:3]),
            certainty="certain",
            expected="packets arrive as they were sent",
        )


RULE = Rule(
    name="delivery_corrupt",
    title="packets are damaged on the way",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
)
