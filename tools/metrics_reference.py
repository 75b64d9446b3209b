"""The page about the metrics that Prometheus scrapes, from the meters."""

from __future__ import annotations

from railbed.model.meters import METERS
from railbed.web.metrics.names import METRICS
from railbed.web.metrics.status import BUILD, GAPS, SAMPLE_AGE, STEP, UP

OF_SWITCHES = ("switch_", "queue_", "ingress_", "watchdog_")
OWN = (
    (UP, "gauge", "device, kind", "Whether a device is being sampled."),
    (SAMPLE_AGE, "gauge", "device, kind", "Time since the newest sample of a device."),
    (f"{GAPS}_total", "counter", "device, kind", "Times that the samples of a device stopped."),
    (STEP, "gauge", "run", "The newest step of a running training."),
    (BUILD, "gauge", "version", "The version of railbed that reports."),
)
INTRODUCTION = """\
# Metrics

What `railbed watch --exporter` reports at `/metrics`; [monitoring.md](../monitoring.md) shows how to use it. Names,
units and types follow from the meters by one rule: base units, and `_total` after a counter. A value that a device does
not have is absent, never zero, and so is every value of a device that does not answer: `railbed_up` is then 0.

`node`, `switch` and `rail` are names of the cluster file; `port` is the interface of a node or the port of a switch. A
switch port has the `node` and `rail` that the cluster file has for the other end of its cable.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def metrics_page() -> str:
    """Return the page."""
    rows = [*OWN, *(_row(name) for name in METERS)]
    return (
        INTRODUCTION
        + "\n".join(f"| `{name}` | {kind} | {labels} | {text} |" for name, kind, labels, text in rows)
        + "\n"
    )


def _row(name: str) -> tuple[str, str, str, str]:
    meter, metric = METERS[name], METRICS[name]
    device = ["switch", "port", "node", "rail"] if name.startswith(OF_SWITCHES) else ["node"]
    ports = ["port", "rail"] if meter.per_port and "port" not in device else []
    labels = [*device, *ports, *([metric.part] if metric.part else [])]
    return metric.name, metric.kind, ", ".join(labels), metric.help
