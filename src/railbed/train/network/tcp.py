"""TCP bytes of a node between two readings of its connections: of the ranks, of other programs, and unclear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railbed.model.span import Range, grown


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpReading:
    """Bytes that the connections of a node have sent since its ranks began to sample."""

    node_segments: tuple[int, int]
    """Data segments that the node has sent, just before and just after the sample."""
    segments: int
    """Data segments that the connections account for, without retransmissions."""
    ranks: Mapping[str, int]
    """Bytes of the ranks to other machines, by interface."""
    others: Mapping[str, int]
    """Bytes of other programs to other machines, by interface."""
    unclear: int
    """Bytes of connections whose owner is unknown."""

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
    """Bytes that a node sent over TCP."""

    ranks: Mapping[str, int]
    others: Mapping[str, int]
    unclear: Range
    """Bytes without a known owner: hidden processes, and connections that came and went between two samples."""

    def __add__(self, other: TcpSentBytes) -> TcpSentBytes:
        return TcpSentBytes(
            ranks=Counter(self.ranks) + Counter(other.ranks),
            others=Counter(self.others) + Counter(other.others),
            unclear=self.unclear + other.unclear,
        )


def tcp_sent_between(before: TcpReading, after: TcpReading, longest: int) -> TcpSentBytes:
    """Return the bytes sent between two readings of the same rank; no segment carries more than `longest`."""
    sent = grown(before.node_segments[0], after.node_segments[1])
    unseen = None if sent.most is None else max(0, sent.most - (after.segments - before.segments)) * longest
    unclear = Range(0, None if unseen is None else unseen + after.unclear - before.unclear)
    return TcpSentBytes(
        ranks=_difference(after.ranks, before.ranks), others=_difference(after.others, before.others), unclear=unclear
    )


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: max(0, count - before.get(name, 0)) for name, count in after.items()}
