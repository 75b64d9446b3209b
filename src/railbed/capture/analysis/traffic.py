"""What a flow sent: DSCP, ECN and priority; messages by operation; bytes and packets over time, in equal buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.sequence import Order
from railbed.capture.analysis.views import Numbers, Rows, View
from railbed.capture.opcodes import ENDS, OPERATION, STARTS, RdmaOperation
from railbed.capture.packets import NO_VLAN, Kind

NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3
ECN_NAMES = {NOT_ECT: "not-ect", ECT1: "ect1", ECT0: "ect0", CE: "ce"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How many packets have which mark."""

    dscp: Mapping[int, int]
    ecn: Mapping[str, int]
    priority: Mapping[int, int]
    """Of the VLAN tag."""
    untagged: int
    packets: int
    """With an IP header: RoCEv1 has neither DSCP nor ECN."""

    @property
    def ce(self) -> int:
        """Packets that a switch marked as congested."""
        return self.ecn.get("ce", 0)

    @property
    def ce_share(self) -> float:
        """Share of packets that a switch marked."""
        return self.ce / self.packets if self.packets else 0.0


def marks_of(view: View, rows: Rows) -> Marks:
    """Return the marks of some packets of a flow."""
    with_ip = view.column("kind", rows) != Kind.ROCE1
    tos = np.bincount(view.column("tos", rows)[with_ip], minlength=256)
    tags = view.column("vlan", rows)
    tagged = tags != NO_VLAN
    return Marks(
        dscp=_counts(tos.reshape(64, 4).sum(axis=1)),
        ecn={ECN_NAMES[code]: count for code, count in _counts(tos.reshape(64, 4).sum(axis=0)).items()},
        priority=_counts(np.bincount(tags[tagged] >> 13, minlength=8)),
        untagged=int((~tagged).sum()),
        packets=int(with_ip.sum()),
    )


def _counts(numbers: NDArray[Any]) -> dict[int, int]:
    return {int(value): int(numbers[value]) for value in np.flatnonzero(numbers)}


def select_congested(view: View, rows: Rows) -> Rows:
    """Return the packets that a switch marked as congested."""
    marked: Rows = rows[(view.column("tos", rows) & 3 == CE) & (view.column("kind", rows) != Kind.ROCE1)]
    return marked


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStats:
    """The complete messages of a flow in one recording."""

    count: Mapping[str, int]
    """By operation: send, write, read, atomic."""
    bytes: int
    smallest: int
    median: int
    largest: int
    incomplete: int
    """Messages of which a packet is missing, or that began or ended outside the recording."""
    per_second: float | None
    """None for fewer than two messages."""
    first_rows: Rows
    last_rows: Rows
    """The first and the last packet of each complete message, in order."""
    sizes: Numbers


def messages_of(view: View, order: Order) -> MessageStats:
    """Return the messages of a flow, each counted once however often it was sent."""
    rows, psn = _once(view, order)
    opcodes = view.column("opcode", rows)
    starts = np.flatnonzero(STARTS[opcodes])
    lasts = np.append(starts, len(rows))[1:] - 1
    ends = ENDS[opcodes[lasts]] & (psn[lasts] - psn[starts] == lasts - starts)
    orphans = int(len(rows) > 0 and not STARTS[opcodes[0]])
    complete, last = starts[ends], lasts[ends]
    sizes = _sizes(view, rows, complete, last)
    operations = np.bincount(OPERATION[opcodes[complete]], minlength=len(RdmaOperation))
    times = view.times(rows[complete])
    seconds = float(times.max() - times.min()) / 1e9 if len(times) > 1 else 0.0
    return MessageStats(
        count={kind.name.lower(): int(operations[kind]) for kind in RdmaOperation if operations[kind]},
        bytes=int(sizes.sum()),
        smallest=int(sizes.min()) if len(sizes) else 0,
        median=int(np.percentile(sizes, 50, method="inverted_cdf")) if len(sizes) else 0,
        largest=int(sizes.max(initial=0)),
        incomplete=int((~ends).sum()) + orphans,
        per_second=(len(times) - 1) / seconds if seconds > 0 else None,
        first_rows=rows[complete],
        last_rows=rows[last],
        sizes=sizes,
    )


def _once(view: View, order: Order) -> tuple[Rows, Numbers]:
    """Return the first copy of every request, in the order of their numbers; datagrams have no copies."""
    if not len(view.requests.rows):
        return view.datagrams, np.arange(len(view.datagrams))
    first = ~order.behind | order.late
    rows, psn = view.requests.rows[first], view.requests.psn[first]
    if order.late.any():
        sorting = np.argsort(psn, kind="stable")
        rows, psn = rows[sorting], psn[sorting]
    return rows, psn


def _sizes(view: View, rows: Rows, first: Rows, last: Rows) -> Numbers:
    """Return what a RETH announces, or else the sum of the payloads."""
    total = np.concatenate(([0], np.cumsum(view.column("payload", rows).astype(np.int64))))
    announced = view.column("message", rows[first]).astype(np.int64)
    return np.where(announced > 0, announced, total[last + 1] - total[first])


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Axis:
    """Buckets of time, in nanoseconds."""

    start: int
    width: int
    count: int

    @classmethod
    def over(cls, start: int, stop: int, *, width: int = 1, most: int = 400) -> Axis:
        """Return buckets from a start to a stop, at least so wide, and at most so many."""
        span = max(1, stop - start + 1)
        width = min(max(width, -(-span // most)), span)
        return cls(start, width, -(-span // width))

    def totals(self, times: Numbers, weights: NDArray[Any] | None = None) -> Floats:
        """Return the number of times in each bucket, or the sum of their weights."""
        if weights is not None and weights.dtype != np.float64:
            weights = weights.astype(np.float64)
        place = (times - self.start) // self.width
        inside = (place >= 0) & (place < self.count)
        if not inside.all():
            place, weights = place[inside], None if weights is None else weights[inside]
        return np.bincount(place, weights=weights, minlength=self.count).astype(np.float64)

    def time(self, bucket: int) -> int:
        """Return when a bucket begins."""
        return self.start + bucket * self.width
