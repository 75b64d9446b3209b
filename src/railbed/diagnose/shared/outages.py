"""Times in which a link was down, from the counter of its changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from railbed.diagnose.evidence import PortView
from railbed.diagnose.shared.silences import parts_of
from railbed.model.text.amount import duration, plural
from railbed.rules.judgement import Span
from railbed.rules.signal import BRIDGE_SECONDS
from railbed.store.series.rates import MOST_INTERVALS, interval

CHANGES = "net_carrier_changes"
TRAFFIC = 1000.0
"""Bytes per second that only a link that is up can receive."""
COARSE = 2
"""An outage of so many samples or fewer may have been much shorter than the time between them."""


class Outage(NamedTuple):
    """A time in which a link was down at least once."""

    span: Span
    times: int
    """How often it went down in that time."""
    is_sampled: bool = True
    """Whether the node was sampled then; otherwise nobody measured for how long the link was down."""


class _Change(NamedTuple):
    """The state of a link changed between two samples."""

    span: Span
    times: int
    """How often: up to down, or down to up."""
    is_sampled: bool


def outages(port: PortView) -> list[Outage]:
    """Return when a port was down: from an odd number of changes to the next; an even one is a short flap."""
    return [outage for part in parts_of(port.evidence) for outage in _outages(port, part)]


def _outages(port: PortView, part: Span) -> Iterator[Outage]:
    changes = _changes(port, part)
    down: Outage | None = None
    for change, following in zip_longest(changes, changes[1:]):
        until = following.span.start if following else part.end
        stays_down = (change.times % 2 == 1) == (down is None)
        times = (change.times + (down is None)) // 2
        if stays_down and _carried_traffic(port, Span(change.span.end, until)):
            # It had been down before what is known of it, and came up.
            stays_down, times = False, change.times // 2
        outage = _continued(down, change, times)
        down = outage if stays_down else None
        if outage.times and not stays_down:
            yield outage
    if down is not None:
        yield down._replace(span=Span(down.span.start, part.end))


def _continued(down: Outage | None, change: _Change, times: int) -> Outage:
    """Return an outage that a change begins, or up to which another one lasted."""
    if down is None:
        return Outage(change.span, times, change.is_sampled)
    span = Span(down.span.start, max(down.span.start, change.span.end))
    return Outage(span, down.times + times, down.is_sampled and change.is_sampled)


def _changes(port: PortView, part: Span) -> list[_Change]:
    """Return the changes in a part of the run, also those in gaps: a link that flaps may be why there is one."""
    growth = port.growth(CHANGES)
    if growth is None:
        return []
    begins, ends, counts = growth
    begins = np.minimum(begins, ends)  # the clock may have been set back
    gaps = ends - begins > MOST_INTERVALS * interval(ends)
    changed = (begins >= part.start) & (ends <= part.end) & (counts > 0)
    columns = (begins, ends, counts, gaps)
    changes = [
        _Change(Span(float(begin), float(end)), round(count), not gap)
        for begin, end, count, gap in zip(*(column[changed] for column in columns), strict=True)
    ]
    return [change for change in changes if change.is_sampled or not _was_replaced(port, change.span)]


def _was_replaced(port: PortView, gap: Span) -> bool:
    """Whether an interface began to count anew in a gap, such as after a reboot: its counters cannot be compared."""
    for meter in ("net_rx_bytes", "net_tx_bytes"):
        growth = port.growth(meter)
        if growth is not None:
            inside = (growth.ends > gap.start) & (growth.begins < gap.end)
            if np.isnan(growth.counts[inside]).any():
                return True
    return False


def _carried_traffic(port: PortView, span: Span) -> bool:
    """Whether a port received in a time."""
    received = port.try_read("net_rx_bytes")
    margin = 2 * received.interval if received else 0.0
    inner = Span(span.start + margin, span.end - margin)
    return received is not None and inner.seconds > 0 and received.mean(inner) > TRAFFIC


def episodes(separate: Sequence[Outage], bridge: float = BRIDGE_SECONDS) -> list[list[Outage]]:
    """Return outages in groups: those close to each other have one cause."""
    groups: list[list[Outage]] = []
    for outage in sorted(separate):
        if groups and outage.span.start - span_of(groups[-1]).end <= bridge:
            groups[-1].append(outage)
        else:
            groups.append([outage])
    return groups


def span_of(episode: Sequence[Outage]) -> Span:
    """Return the time from the first outage of an episode to the end of the last."""
    return Span(min(outage.span.start for outage in episode), max(outage.span.end for outage in episode))


def describe(episode: Sequence[Outage], usual: float, was: str = "was") -> str:
    """Return how often links went down and for how long; `usual` is the time between two samples."""
    times, span = sum(outage.times for outage in episode), span_of(episode)
    measured = [outage for outage in episode if outage.is_sampled]
    seconds = sum(outage.span.seconds for outage in measured)
    bound = "at most " if seconds <= COARSE * usual * len(measured) else ""
    lasted = f"for {bound}{duration(max(seconds, usual))}"
    if times == 1:
        return f"{was} down {lasted}" if measured else f"went down while the node was not sampled for {_seconds(span)}"
    often = f"went down {plural(times, 'time')} within {_seconds(span)}"
    if not measured:
        return f"{often} in which the node was not sampled"
    return f"{often}, {lasted} in all{'' if len(measured) == len(episode) else ' and while the node was not sampled'}"


def _seconds(span: Span) -> str:
    return duration(span.seconds)
