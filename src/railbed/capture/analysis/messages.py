"""Messages: how many, how large, how fast, by operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railbed.capture.analysis.operations import ENDS, OPERATION, STARTS, Operation
from railbed.capture.analysis.sequence import Order
from railbed.capture.analysis.views import Numbers, Rows, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
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


def messages_of(view: View, order: Order) -> Messages:
    """Return the messages of a flow, each counted once however often it was sent."""
    rows, psn = _once(view, order)
    opcodes = view.column("opcode", rows)
    starts = np.flatnonzero(STARTS[opcodes])
    lasts = np.append(starts, len(rows))[1:] - 1
    ends = ENDS[opcodes[lasts]] & (psn[lasts] - psn[starts] == lasts - starts)
    orphans = int(len(rows) > 0 and not STARTS[opcodes[0]])
    complete, last = starts[ends], lasts[ends]
    sizes = _sizes(view, rows, complete, last)
    operations = np.bincount(OPERATION[opcodes[complete]], minlength=len(Operation))
    times = view.times(rows[complete])
    seconds = float(times.max() - times.min()) / 1e9 if len(times) > 1 else 0.0
    return Messages(
        count={kind.name.lower(): int(operations[kind]) for kind in Operation if operations[kind]},
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
