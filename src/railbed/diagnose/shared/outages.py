"""Times in which a link was down, from the counter of its changes."""

from __future__ import annotations

import numpy as np

from railbed.diagnose.evidence import PortView
from railbed.diagnose.signal import Signal, Span, merged

TRAFFIC = 1000.0
"""Bytes per second that only a link that is up can receive."""


def outages(port: PortView, changes: Signal) -> list[Span]:
    """Return when a port was down: from an odd change to the next; two changes between samples are a short flap."""
    growth = np.nan_to_num(changes.values) * np.diff(changes.times, prepend=changes.times[:1])
    grown: list[int] = np.round(growth).astype(np.int64).tolist()
    spans: list[Span] = []
    down: float | None = None
    for index in (index for index, count in enumerate(grown) if count > 0):
        before, now = float(changes.times[max(index - 1, 0)]), float(changes.times[index])
        odd = grown[index] % 2 == 1
        if down is not None:
            spans.append(Span(down, now))
            down = None if odd else before
        elif odd:
            down = before
        else:
            spans.append(Span(before, now))
    if down is not None:
        spans.append(Span(down, port.evidence.span.end))
    return [span for span in merged(spans, 3.0) if not _carried_traffic(port, span)]


def _carried_traffic(port: PortView, span: Span) -> bool:
    """Whether a port received meanwhile: then it had been down before the run, and came up."""
    received = port.try_read("net_rx_bytes")
    margin = 2 * received.interval if received else 0.0
    inner = Span(span.start + margin, span.end - margin)
    return received is not None and inner.seconds > 0 and received.mean(inner) > TRAFFIC
