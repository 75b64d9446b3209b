"""Flows of a capture as measurements: a table of numbers for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from railbed.model.events import Flow, FlowRates
from railbed.model.record import Measurement

COUNTS = {
    "flow_packets": ("packets", "1"),
    "flow_bytes": ("bytes", "byte"),
    "flow_payload_bytes": ("payload_bytes", "byte"),
    "flow_lost_packets": ("lost", "1"),
    "flow_resent_packets": ("resent", "1"),
    "flow_cnp_packets": ("notifications", "1"),
}
CE = "flow_ce_packets"
RATES = {
    "flow_bytes_per_second": ("bytes_per_second", "byte/s"),
    "flow_interval_packets": ("packets", "1"),
    "flow_interval_ce_packets": ("ce", "1"),
    "flow_interval_cnp_packets": ("notifications", "1"),
}
"""By name: the field of the event, and its unit."""


def flow_measurements(event: Flow | FlowRates) -> Iterator[Measurement]:
    """Yield the counts of a flow, at its end, or what it did in each interval, at the beginning of that."""
    labels: dict[str, str | int] = {"flow": event.id, "path": event.subject}
    if isinstance(event, Flow):
        labels["qp"] = event.qp
        counts = {name: (getattr(event, field), unit) for name, (field, unit) in COUNTS.items()}
        counts[CE] = (event.ecn_arrived or event.ecn).get("ce", 0), "1"
        for name, (value, unit) in counts.items():
            yield Measurement(name=name, value=_number(value), unit=unit, labels=labels, time=event.ended)
        return
    for name, (field, unit) in RATES.items():
        for place, value in enumerate(getattr(event, field)):
            time = event.start + place * event.width
            yield Measurement(name=name, value=_number(value), unit=unit, labels=labels, time=time)


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer in a damaged record
        return inf
