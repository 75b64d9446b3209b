"""Counters that stand still on a healthy fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.diagnose.evidence import PortView, Unsampled
from railbed.rules.judgement import Span
from railbed.rules.signal import Signal, merged

BRIDGE_SECONDS = 30.0
"""Errors come in bursts: those half a minute apart have the same cause."""


def measured(port: PortView, meters: Sequence[str], *signals: Signal | None) -> list[Signal]:
    """Return those series of a port's cable that were measured, or end this judgement if none was."""
    present = [signal for signal in signals if signal is not None]
    if not present:
        raise Unsampled(" or ".join(meters), port.subject)
    return present


def growths(signals: Sequence[Signal], least: float = 1.0) -> Iterator[tuple[Span, list[Signal]]]:
    """Yield each episode in which counters grew by at least some amount, and those counters."""
    for span in merged([span for signal in signals for span in signal.above(0.0)], BRIDGE_SECONDS):
        grown = [signal for signal in signals if signal.total(span) > 0.5]
        if sum(signal.total(span) for signal in grown) >= least - 0.5:
            yield span, grown


def counted(signals: Sequence[Signal], span: Span) -> str:
    """Return `phy_crc_errors +12, phy_symbol_errors +3`."""
    return ", ".join(f"{signal.meter.name} +{round(signal.total(span)):,}" for signal in signals)


def grew(signal: Signal | None, span: Span) -> float:
    """Return by how much a counter grew, around a span; 0 if it was not measured."""
    return signal.total(span.widened(2 * signal.interval)) if signal else 0.0
