"""Marks of the packets that a port sends, as rules about marking count them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.results import FlowView
from railbed.capture.analysis.views import Rows
from railbed.capture.opcodes import ROLE, Role
from railbed.capture.packets import Kind
from railbed.capture.subjects import SenderView
from railbed.rules.rule import Absent

LEAST_PACKETS = 10
MOST_SHARE = 0.01
"""Wrong marks up to this share may come from another application; both limits must be exceeded."""
Marked = list[tuple[FlowView, Rows]]


def sent_marks(port: SenderView) -> Marked:
    """Return the packets with requests or data that a port sends, as close to it as they were recorded."""
    views = []
    for flow in port.sends:
        rows, view = flow.main.view.rows, flow.main.view
        role = ROLE[view.column("opcode", rows)]
        chosen = ((role == Role.REQUEST) | (role == Role.DATA)) & (view.column("kind", rows) != Kind.ROCE1)
        if chosen.any():
            views.append((flow.main, rows[chosen]))
    if not views:
        raise Absent(f"{port.subject} sends no RDMA data with an IP header")
    return views


def not_expected(
    views: Iterable[tuple[FlowView, Rows]], is_wrong: Callable[[NDArray[Any]], NDArray[Any]]
) -> tuple[int, int, Marked]:
    """Return how many packets have a wrong mark, of how many, and which; none if they are only a few."""
    total, wrong = 0, []
    for view, rows in views:
        mask = is_wrong(view.view.column("tos", rows))
        total += len(rows)
        if mask.any():
            wrong.append((view, rows[mask]))
    count = sum(len(rows) for _, rows in wrong)
    return (count, total, wrong) if enough(count, total) else (0, total, [])


def enough(wrong: int, total: int) -> bool:
    """Whether so many wrong marks are more than an accident."""
    return wrong >= LEAST_PACKETS and wrong > MOST_SHARE * total


def most_frequent(views: Marked) -> int:
    """Return the DSCP that most of these packets have."""
    counts = sum(np.bincount(view.view.column("tos", rows) >> 2, minlength=64) for view, rows in views)
    return int(np.argmax(counts))
