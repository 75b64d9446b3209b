"""Nodes compared with each other at the same time, and signs that a healthy fabric does not show.

A busy machine slows down all nodes of a lab, a busy switch all nodes of a rail. Only what sets one apart blames it.

Such signs are counters that should stand still, RDMA in priority 0 (the packets have no mark, or the card does not look
at it), and what was in order before the launch and not at a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from railbed.model.events.bmc import BMC_PREFIX
from railbed.model.events.train import RETURNED
from railbed.model.record import Finding
from railbed.present.changed import may_explain
from railbed.rules.judgement import Span
from railbed.rules.rule import Unsampled
from railbed.rules.signal import Numbers, Signal, join_spans
from railbed.rules.site import PortView, Site
from railbed.store.timeline import Mark

K = TypeVar("K")
SMOOTHED = 3
"""Samples that a smoothed value is the mean of: a second may have only a few packets."""


def at(times: Numbers, signal: Signal) -> Numbers:
    """Return the values of a series at other times; NaN where it has none near."""
    known = np.isfinite(signal.values)
    if not known.any():
        return np.full(len(times), np.nan)
    sampled = signal.times[known]
    after = np.clip(np.searchsorted(sampled, times), 0, len(sampled) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(sampled[before] - times) < np.abs(sampled[after] - times), before, after)
    values: Numbers = signal.values[known][nearest].astype(np.float64)
    values[np.abs(sampled[nearest] - times) > 2 * signal.interval] = np.nan
    return values


def others_at(name: K, signals: Mapping[K, Signal]) -> Numbers:
    """Return the median of the other series at the times of one; NaN where none of them is known."""
    times = signals[name].times
    values = np.array([at(times, signal) for key, signal in signals.items() if key != name])
    return middles(values) if len(values) else np.full(len(times), np.nan)


def middles(values: Numbers) -> Numbers:
    """Return the median of each column, as far as it is known."""
    result = np.full(values.shape[1], np.nan)
    known = np.isfinite(values).any(axis=0)
    if known.any():
        result[known] = np.nanmedian(values[:, known], axis=0)
    return result


def smooth(values: Numbers) -> Numbers:
    """Return the mean of each value and its neighbours, as far as they are known."""
    if not len(values):
        return values
    sides = np.pad(values.astype(np.float64), SMOOTHED // 2, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(sides, SMOOTHED)
    known = np.isfinite(windows)
    means = np.where(known, windows, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))
    return np.where(np.isfinite(values), means, np.nan)


BRIDGE_SECONDS = 30.0
"""Errors come in bursts: those half a minute apart have the same cause."""


def measured_signals(port: PortView, meters: Sequence[str], *signals: Signal | None) -> list[Signal]:
    """Return those series of a port's cable that were measured, or end this judgement if none was."""
    present = [signal for signal in signals if signal is not None]
    if not present:
        raise Unsampled(" or ".join(meters), port.subject)
    return present


def growths(signals: Sequence[Signal], least: float = 1.0) -> Iterator[tuple[Span, list[Signal]]]:
    """Yield each episode in which counters grew by at least some amount, and those counters."""
    for span in join_spans([span for signal in signals for span in signal.above(0.0)], BRIDGE_SECONDS):
        grown = [signal for signal in signals if signal.total(span) > 0.5]
        if sum(signal.total(span) for signal in grown) >= least - 0.5:
            yield span, grown


def describe_growth(signals: Sequence[Signal], span: Span) -> str:
    """Return `phy_crc_errors +12, phy_symbol_errors +3`."""
    return ", ".join(f"{signal.meter.name} +{round(signal.total(span)):,}" for signal in signals)


def grew(signal: Signal | None, span: Span) -> float:
    """Return by how much a counter grew, around a span; 0 if it was not measured."""
    return signal.total(span.widen(2 * signal.interval)) if signal else 0.0


BUSY = 1e6
"""Bytes per second of RDMA from which priorities are compared."""
LEAST_SECONDS = 3.0
IDLE_SHARE, BUSY_SHARE = 0.05, 0.8
"""Of the RDMA bytes: what the lossless priority carries at most, and priority 0 at least."""


class Unprotected(NamedTuple):
    """An episode in which RDMA was sent in priority 0."""

    span: Span
    rdma: Signal
    default: Signal
    """Priority 0."""
    lossless: Signal
    lossless_queue: float | None
    """Bytes that the switch sent from its lossless queues on the rail; None if that was not measured."""
    total: float


def find_unprotected(port: PortView) -> Iterator[Unprotected]:
    """Yield the episodes in which the RDMA of a port was in priority 0 instead of the lossless one."""
    rdma, default = port.signal("rdma_tx_bytes"), port.signal("priority_tx_bytes", "0")
    lossless = port.signal("priority_tx_bytes", port.lossless)
    for span in rdma.above(BUSY, least=LEAST_SECONDS):
        total = rdma.total(span)
        if lossless.total(span) < IDLE_SHARE * total and default.total(span) > BUSY_SHARE * total:
            yield Unprotected(span, rdma, default, lossless, _lossless_queue(port, span), total)


def _lossless_queue(port: PortView, span: Span) -> float | None:
    switch_ports = [peer.switch_port for peer in port.peers if peer.switch_port]
    signals = [switch_port.try_signal("queue_tx_bytes", port.lossless) for switch_port in switch_ports]
    present = [signal for signal in signals if signal is not None]
    return sum(grew(signal, span) for signal in present) if present else None


def failures(site: Site) -> list[Mark]:
    """Return the restarts that were not planned: those that use a node again are."""
    return [mark for mark in site.run.marks("restart") if not mark.text.endswith(RETURNED)]


def reason_for_loss(site: Site, node: str, span: Span, seconds: float) -> str:
    """Return why training gave up a node in a span or some seconds later; empty if it did not."""
    marks = (mark for mark in site.run.marks("lost", "restart") if mark.subject.partition("/")[0] == node)
    near = (mark for mark in marks if span.start - 1.0 <= mark.time <= span.end + seconds)
    return next((mark.text.removeprefix(f"{mark.subject}: ") for mark in near), "")


REPORT_SECONDS = 60.0
"""How long the BMC of a node may take to report after the node was lost."""


def bmc_report(site: Site, node: str, span: Span) -> str:
    """Return what the BMC of a node reported in a span or soon after it; empty if it was not read."""
    marks = (mark for mark in site.run.marks("notice") if mark.subject == node and mark.text.startswith(BMC_PREFIX))
    return next((mark.text for mark in marks if span.start - 1.0 <= mark.time <= span.end + REPORT_SECONDS), "")


def bmc_report_around(site: Site, node: str, time: float) -> str:
    """Return what the BMC of a node reported before or after a moment; empty if it was not read then."""
    return bmc_report(site, node, Span(time - REPORT_SECONDS, time))


def changes_at(site: Site, restart: Mark) -> list[Finding]:
    """Return what had become worse at a restart, failures before warnings."""
    findings = site.run.timeline.findings()
    worse = [finding for finding in findings if finding.is_of_restart(restart.generation, restart.time)]
    return sorted(worse, key=lambda finding: finding.verdict.rank)


def causes_of(restart: Mark, changes: Sequence[Finding]) -> list[Finding]:
    """Return the changes that can be the cause of a restart."""
    return [finding for finding in changes if may_explain(finding, restart.subject, restart.text)]


def remedies(findings: Sequence[Finding]) -> str:
    """Return what to do about findings, each remedy once."""
    return "; ".join(dict.fromkeys(finding.remedy for finding in findings if finding.remedy))
