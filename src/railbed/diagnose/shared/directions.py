"""From which node to which node TCP loses segments, from what each node sent to each of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from railbed.diagnose.evidence import Evidence
from railbed.model.meters import SeriesKey
from railbed.rules.judgement import Span

SHARE_OF_WORST = 0.25
"""A direction with less than this part of the worst one's share loses nothing: its sender repeats what had arrived,
because acknowledgements are lost on the way back."""
LEAST_AGAIN = 5.0
MOST_NAMED = 3


class PeerTraffic(NamedTuple):
    """What a node sent to another in some time."""

    sender: str
    receiver: str
    segments: float
    again: float
    """Those of them that were sent again, and had not arrived."""

    @property
    def share(self) -> float:
        """Of the segments, the part that was sent again."""
        return self.again / max(1.0, self.segments)

    def __str__(self) -> str:
        return f"{self.sender} → {self.receiver}: {self.share * 100:.1f} % of {self.segments:,.0f} segments"


def directions(evidence: Evidence, span: Span) -> list[PeerTraffic]:
    """Return every direction in which something was sent; none if peers were not measured."""
    return [direction for direction in _each(evidence, span) if direction.segments > 0]


def _each(evidence: Evidence, span: Span) -> Iterator[PeerTraffic]:
    nodes = {str(port.address): node for node, port in evidence.cluster.ports()}
    totals: dict[tuple[str, str], list[float]] = {}
    for sent in evidence.all_of("tcp_peer_segments"):
        series = sent.series
        again, needless = (
            evidence.signal(SeriesKey(series.device, meter, series.port, series.part))
            for meter in ("tcp_peer_retransmits", "tcp_peer_needless")
        )
        if again is not None and series.part in nodes:
            total = totals.setdefault((series.device, nodes[series.part]), [0.0, 0.0])
            total[0] += sent.total(span)
            total[1] += max(0.0, again.total(span) - (needless.total(span) if needless else 0.0))
    for (sender, receiver), (segments, repeated) in totals.items():
        yield PeerTraffic(sender, receiver, segments, repeated)


def lossy_directions(sent: Sequence[PeerTraffic], limit: float) -> list[PeerTraffic]:
    """Return the directions that lose more than a share of what is sent, the worst first."""
    worst = max((direction.share for direction in sent if direction.again >= LEAST_AGAIN), default=0.0)
    least = max(limit, SHARE_OF_WORST * worst)
    lossy = [direction for direction in sent if direction.again >= LEAST_AGAIN and direction.share >= least]
    return sorted(lossy, key=lambda direction: -direction.share)


def named(lossy: Sequence[PeerTraffic], sent: Sequence[PeerTraffic]) -> str:
    """Return where segments are lost: each direction, or how many of them and the worst."""
    if len(lossy) <= MOST_NAMED:
        return "; ".join(map(str, lossy))
    which = "all" if len(lossy) == len(sent) else f"{len(lossy)} of"
    return f"in {which} {len(sent)} directions, at most {lossy[0]}"
