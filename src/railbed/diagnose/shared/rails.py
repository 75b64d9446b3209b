"""Which rail carried the traffic."""

from __future__ import annotations

from railbed.diagnose.evidence import Evidence, RailView
from railbed.rules.judgement import Span

BUSY_SHARE = 0.1
"""Share of the busiest rail's traffic from which another rail counts as used."""


def sent_by(rail: RailView, span: Span | None = None) -> float:
    """Return the bytes per second that the nodes of a rail sent in the mean, over TCP and RDMA."""
    signals = [*rail.try_read("net_tx_bytes").values(), *rail.try_read("rdma_tx_bytes").values()]
    means = [signal.mean(span) for signal in signals]
    return sum(mean for mean in means if mean == mean) / max(1, len(rail.ports))  # noqa: PLR0124  (NaN)


def busiest_rail(evidence: Evidence, span: Span | None = None) -> str:
    """Return the rail that sent the most; empty if none sent anything."""
    rates = {rail.name: sent_by(rail, span) for rail in evidence.rails}
    name = max(rates, key=lambda name: rates[name], default="")
    return name if name and rates[name] > 0 else ""


def used_rails(evidence: Evidence) -> list[RailView]:
    """Return the rails that carried a fair part of the run's traffic."""
    rates = {rail.name: sent_by(rail) for rail in evidence.rails}
    most = max(rates.values(), default=0.0)
    return [rail for rail in evidence.rails if most > 0 and rates[rail.name] >= BUSY_SHARE * most]
