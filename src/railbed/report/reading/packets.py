"""Flows of a capture as measurements: a table of numbers for other programs."""

from __future__ import annotations

from collections.abc import Iterator

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
        ce = float((event.ecn_arrived or event.ecn).get("ce", 0))
        yield Measurement(name="flow_ce_packets", value=ce, unit="1", labels=labels, time=event.ended)
        for name, (field, unit) in COUNTS.items():
            value = float(getattr(event, field))
            yield Measurement(name=name, value=value, unit=unit, labels=labels, time=event.ended)
        return
    for name, (field, unit) in RATES.items():
        for place, value in enumerate(getattr(event, field)):
            time = event.start + place * event.width
            yield Measurement(name=name, value=float(value), unit=unit, labels=labels, time=time)
