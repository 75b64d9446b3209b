"""What TCP carried between two looks at the connections of a node: for the ranks, for other programs, and unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railbed.model.span import Span, grown


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpReading:
    """What the connections of a node have sent since its ranks began to look, in bytes."""

    node_segments: tuple[int, int]
    """Those with data that the node has sent, right before and right after the look."""
    segments: int
    """Those of them that the connections account for; fewer where some were sent again."""
    ranks: Mapping[str, int]
    """By the ranks, to other machines, by interface."""
    others: Mapping[str, int]
    """By other programs, likewise."""
    unclear: int
    """By connections whose owner is not known."""

    @classmethod
    def of(cls, counted: Mapping[str, Any]) -> TcpReading | None:
        """Return the reading in a rank's message; None if it has none."""
        if "node_segments" not in counted:
            return None
        return cls(
            node_segments=tuple(counted["node_segments"]),
            segments=counted["segments"],
            ranks=dict(counted["ranks"]),
            others=dict(counted["others"]),
            unclear=counted["unclear"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSentBytes:
    """What left a node over TCP, in bytes."""

    ranks: Mapping[str, int]
    others: Mapping[str, int]
    unclear: Span
    """What nobody can say whose it was: owners that hid, and connections that came and went between two looks."""

    def __add__(self, other: TcpSentBytes) -> TcpSentBytes:
        return TcpSentBytes(
            ranks=Counter(self.ranks) + Counter(other.ranks),
            others=Counter(self.others) + Counter(other.others),
            unclear=self.unclear + other.unclear,
        )


def tcp_sent_between(before: TcpReading, after: TcpReading, longest: int) -> TcpSentBytes:
    """Return what was sent between two readings of the same rank; no segment carries more than `longest`."""
    sent = grown(before.node_segments[0], after.node_segments[1])
    unseen = None if sent.most is None else max(0, sent.most - (after.segments - before.segments)) * longest
    unclear = Span(0, None if unseen is None else unseen + after.unclear - before.unclear)
    return TcpSentBytes(
        ranks=_difference(after.ranks, before.ranks), others=_difference(after.others, before.others), unclear=unclear
    )


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: max(0, count - before.get(name, 0)) for name, count in after.items()}
