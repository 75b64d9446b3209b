"""Every flow: how much, with which marks, what got lost, and how fast it was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railbed.model.events import Flow
from railbed.present.wording import plural
from railbed.report.blocks import Block, Cell, Fold, TableBlock, TextBlock, Value, byte_count, count, duration, share
from railbed.report.document import Section
from railbed.report.reading.run import RunData

MOST_ROWS = 40
"""More are folded."""
TEXTS = ("flow", "rail", "QP", "transport", "carries", "DSCP", "refused")
ALWAYS = ("flow", "QP", "packets", "bytes", "DSCP", "CE", "CNP", "lost", "sent again")
"""Columns that are shown even if nothing is in them."""


def show(run: RunData) -> Sequence[Block] | None:
    """Show the flows that carry data; those with answers only are folded away."""
    flows = run.of(Flow)
    if not flows:
        return None
    carrying = [flow for flow in flows if flow.payload_bytes or flow.role in ("requests", "both", "datagrams")]
    others = [flow for flow in flows if flow not in carrying]
    words = (
        "A connection is two flows: answers and notifications go to the queue pair of the other side. Counts are those "
        "of the recording closest to the sender, CE is the share that arrived marked, where that was recorded; CNP "
        "counts the notifications about a flow, and a round trip lasts from a request to its first answer."
    )
    blocks: list[Block] = [TextBlock(words)]
    blocks += [_table(carrying[:MOST_ROWS])] if carrying else []
    for more, noun in ((carrying[MOST_ROWS:], "smaller flow"), (others, "flow")):
        kind = " of answers and notifications only" if more is others else ""
        blocks += [Fold(f"{plural(len(more), noun)}{kind}", [_table(more)])] if more else []
    return blocks


def _table(flows: Sequence[Flow]) -> TableBlock:
    rows = [_cells(flow) for flow in flows]
    columns = [name for name in rows[0] if name in ALWAYS or any(_is_known(row[name]) for row in rows)]
    numbers = [name for name in columns if name not in TEXTS]
    return TableBlock(columns, [[row[name] for name in columns] for row in rows], numbers=numbers)


def _is_known(cell: Cell) -> bool:
    return cell.value != 0 if isinstance(cell, Value) else cell != ""


def _cells(flow: Flow) -> dict[str, Cell]:
    ecn = flow.ecn_arrived or flow.ecn
    trip = flow.round_trip
    return {
        "flow": flow.subject,
        "rail": flow.rail or "",
        "QP": str(flow.qp),
        "transport": flow.transport,
        "carries": flow.role,
        "packets": count(flow.packets),
        "bytes": byte_count(flow.bytes),
        "messages": count(sum(flow.messages.values())),
        "message size": byte_count(flow.message_bytes_median) if flow.message_bytes_median is not None else "",
        "DSCP": _by_frequency(flow.dscp),
        "CE": share(ecn.get("ce", 0) / max(1, sum(ecn.values()))),
        "CNP": count(flow.notifications),
        "lost": count(flow.lost),
        "only missed": count(flow.uncaptured),
        "unresolved": count(flow.unresolved),
        "sent again": count(flow.resent),
        "out of order": count(flow.reordered),
        "refused": ", ".join(f"{number:,} {reason}" for reason, number in flow.refusals.items()),
        "round trip": duration(trip.median) if trip else "",
        "99 of 100 below": duration(trip.p99) if trip else "",
        "delay": duration(flow.delay.median) if flow.delay else "",
    }


def _by_frequency(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(counts, key=lambda name: -counts[name]))


SECTION = Section(
    name="packets_flows",
    title="Flows",
    order=18,
    show=show,
)
