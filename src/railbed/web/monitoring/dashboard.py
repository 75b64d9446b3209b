"""A Grafana dashboard for a cluster: charts of the nodes and rails that are chosen in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railbed.model.meters import METERS
from railbed.present.charts import CHART_NAMED
from railbed.web.metrics.status import SAMPLE_AGE, STEP, UP
from railbed.web.monitoring.alert_rules import PAUSE_SHARE
from railbed.web.monitoring.site import MonitoredCluster

WINDOW = "$__rate_interval"
PORT = "{{node}} {{port}}"
RANK = "rank {{rank}} on {{node}}"
GRAFANA_UNITS: Mapping[str, str] = {
    "nat": "none",
    "1/s": "none",
    "cores": "none",
    "s": "s",
    "share": "percentunit",
    "B": "bytes",
    "W": "watt",
    "°C": "celsius",
    "MHz": "hertz",
}
"""By the unit of a chart; metrics have base units."""
CHOSEN_NODES = {"node_matches": "$node"}
CHOSEN_PORTS = {**CHOSEN_NODES, "rail_matches": "$rail"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: queries by their legend."""

    title: str
    unit: str
    """As Grafana names it."""
    queries: Mapping[str, str]
    text: str = ""
    """What to look for."""
    kind: str = "timeseries"
    limit: float | None = None
    """Drawn as a line."""


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Charts below a heading."""

    title: str
    panels: Sequence[Panel]


def rows(site: MonitoredCluster) -> list[PanelRow]:
    """Return the charts that make sense for a cluster."""
    content = [PanelRow("Overview", list(_overview(site))), PanelRow("Training", list(_training(site)))]
    if site.ports:
        content.append(PanelRow("Rails", list(_rails(site))))
    if site.rdma_ports:
        content.append(PanelRow("Congestion", list(_congestion(site))))
    content.append(PanelRow("Loss and errors", list(_errors(site))))
    if site.switch_ports:
        content.append(PanelRow("Switches", list(_switches(site))))
    content.append(PanelRow("Nodes", list(_nodes(site))))
    if any(node.gpus for node in site.cluster.nodes.values()):
        content.append(PanelRow("GPUs", list(_gpus(site))))
    return content


def _overview(site: MonitoredCluster) -> Iterator[Panel]:
    up, age = site.select_metric(UP), site.select_metric(SAMPLE_AGE)
    firing = site.select_metric("ALERTS", alertstate="firing")
    yield Panel("Devices that do not answer", "none", {"": f"count({up} == 0) or vector(0)"}, kind="stat", limit=1)
    yield Panel("Alerts", "none", {"": f"count({firing}) or vector(0)"}, kind="stat", limit=1)
    yield Panel("Age of the newest sample", "s", {"{{device}}": age}, "Grows while a device is silent.")


def _training(site: MonitoredCluster) -> Iterator[Panel]:
    yield _panel(site, "loss", "loss", {})
    for name in ("step", "allreduce", "idle"):
        yield _panel(site, name, RANK, CHOSEN_NODES)
    yield _panel(site, "tokens", "tokens per second", {})
    yield Panel("Step", "none", {"{{run}}": site.select_metric(STEP)})


def _rails(site: MonitoredCluster) -> Iterator[Panel]:
    with_rdma = {port.rail for port in site.rdma_ports}
    for rail in site.rails:
        chosen = {**CHOSEN_NODES, "rail": rail}
        queries = {}
        for direction, verb in (("tx", "sent"), ("rx", "received")):
            if rail in with_rdma:
                queries[f"{PORT} RDMA {verb}"] = _rate(site, f"rdma_{direction}_bytes", chosen)
            queries[f"{PORT} TCP {verb}"] = _rate(site, f"net_{direction}_bytes", chosen)
        yield Panel(f"Traffic on {rail}", "Bps", queries, limit=site.bytes_per_second(rail))


def _congestion(site: MonitoredCluster) -> Iterator[Panel]:
    lossless = {**CHOSEN_PORTS, "priority": site.priority}
    for name in ("pause-in", "pause-out"):
        yield _panel(site, name, PORT, lossless, limit=PAUSE_SHARE)
    for title, meter, text in (
        ("Packets with a congestion mark", "rdma_ecn_marked_packets", "Marked by a switch on the way."),
        ("Congestion notifications sent", "rdma_cnp_sent", "By receivers of marked packets."),
        ("Congestion notifications handled", "rdma_cnp_handled", "By senders, which then slow down."),
        ("Congestion notifications ignored", "rdma_cnp_ignored", "Zero, unless DCQCN is off on a card."),
    ):
        yield Panel(title, "pps", {PORT: _rate(site, meter, CHOSEN_PORTS)}, text)


def _errors(site: MonitoredCluster) -> Iterator[Panel]:
    if site.rdma_ports:
        yield _chart_growth(site, "RDMA packets lost on the way", "rdma_out_of_sequence", "rdma_sequence_naks")
        yield _chart_growth(
            site, "RDMA packets sent again", "rdma_retransmits", "rdma_timeouts", "rdma_retries_exceeded"
        )
        yield _chart_growth(site, "Receiver not ready", "rdma_receiver_not_ready", "rdma_out_of_buffer")
        yield _chart_growth(site, "Dropped by the card", "priority_rx_drops", "phy_rx_drops")
        yield _chart_growth(site, "Damaged packets", "phy_crc_errors", "phy_symbol_errors", "rdma_damaged_packets")
    if site.ports:
        yield _chart_growth(site, "Link changes", "net_carrier_changes")
        yield _chart_growth(
            site, "Errors of interfaces", "net_rx_errors", "net_tx_errors", "net_rx_drops", "net_tx_drops"
        )
    yield _panel(site, "tcp", "{{node}}", CHOSEN_NODES)


def _chart_growth(site: MonitoredCluster, title: str, *meters: str) -> Panel:
    """Return a chart of counters that hardly ever grow, as growth in each interval."""
    queries = {
        f"{PORT} {meter.partition('_')[2].replace('_', ' ')}": (
            f"increase({site.select(meter, **CHOSEN_PORTS)}[{WINDOW}])"
        )
        for meter in meters
    }
    return Panel(title, "none", queries)


def _switches(site: MonitoredCluster) -> Iterator[Panel]:
    lossless = {**CHOSEN_PORTS, "queue": site.queue}
    port = "{{switch}} {{port}} ({{node}})"
    yield Panel("Depth of the lossless queue", "bytes", {port: site.select("queue_depth_bytes", **lossless)})
    yield Panel("Sent by the lossless queue", "Bps", {port: _rate(site, "queue_tx_bytes", lossless)})
    yield Panel("Marked by the lossless queue", "pps", {port: _rate(site, "queue_ecn_marked_packets", lossless)})
    yield Panel(
        "Dropped by the lossless queue",
        "pps",
        {
            f"{port} {what}": _rate(site, meter, lossless)
            for what, meter in (("buffer full", "queue_drop_packets"), ("WRED", "queue_wred_drop_packets"))
        },
    )
    yield Panel(
        "Pause frames",
        "pps",
        {
            f"{port} {what}": _rate(site, meter, CHOSEN_PORTS)
            for what, meter in (("from the node", "switch_pause_rx_frames"), ("to the node", "switch_pause_tx_frames"))
        },
    )
    shutdowns = f"increase({site.select('watchdog_shutdowns', **lossless)}[{WINDOW}])"
    yield Panel("Queues shut by the watchdog", "none", {port: shutdowns})


def _nodes(site: MonitoredCluster) -> Iterator[Panel]:
    node = "{{node}}"
    for name in ("cpu", "softirq"):
        yield _panel(site, name, node, CHOSEN_NODES)
    used, total = (site.select(meter, **CHOSEN_NODES) for meter in ("memory_used_bytes", "memory_total_bytes"))
    yield Panel(CHART_NAMED["memory"].title, "percentunit", {node: f"{used} / {total}"})


def _gpus(site: MonitoredCluster) -> Iterator[Panel]:
    for name in ("gpu", "gpu-memory", "gpu-power", "gpu-temperature", "gpu-clock"):
        yield _panel(site, name, "{{node}} GPU {{gpu}}", CHOSEN_NODES)


def _panel(
    site: MonitoredCluster, name: str, legend: str, labels: Mapping[str, str], *, limit: float | None = None
) -> Panel:
    """Return the panel of a chart with a single meter: its value, or its rate if it is a counter."""
    chart = CHART_NAMED[name]
    (meter,) = chart.meters
    is_counter = METERS[meter].kind == "counter"
    query = _rate(site, meter, labels) if is_counter else site.select(meter, **labels)
    unit = "pps" if is_counter and chart.unit == "1/s" else GRAFANA_UNITS[chart.unit]
    return Panel(chart.title, unit, {legend: query}, chart.note, limit=limit)


def _rate(site: MonitoredCluster, meter: str, labels: Mapping[str, str]) -> str:
    return f"rate({site.select(meter, **labels)}[{WINDOW}])"


COLUMNS, HEIGHT = 24, 8
SCHEMA = 39
"""Of Grafana's dashboards: that of version 10.4, which newer ones upgrade."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(site: MonitoredCluster) -> Mapping[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "title": f"railbed: {site.name}",
        # Grafana allows 40 letters, digits, - and _; names of clusters may be longer and have dots.
        "uid": f"railbed-{hashlib.sha256(site.name.encode()).hexdigest()[:16]}",
        "tags": ["railbed"],
        "schemaVersion": SCHEMA,
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_source(), _choice("node", list(site.cluster.nodes)), _choice("rail", site.rails)]},
        "annotations": {"list": [_alerts(site)]},
        "panels": list(_place(rows(site))),
    }


def _source() -> Mapping[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _choice(name: str, values: Sequence[str]) -> Mapping[str, Any]:
    options = [{"text": value, "value": value, "selected": False} for value in values]
    return {
        "name": name,
        "type": "custom",
        "query": ",".join(values),
        "includeAll": True,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
        "options": [{"text": "All", "value": "$__all", "selected": True}, *options],
    }


def _alerts(site: MonitoredCluster) -> Mapping[str, Any]:
    expr = f'ALERTS{{alertstate="firing",cluster="{site.name}"}}'
    return {
        "name": "Alerts",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": expr,
        "titleFormat": "{{alertname}}",
        "textFormat": "{{node}} {{port}} {{rail}}",
    }


def _place(content: Sequence[PanelRow]) -> Iterator[Mapping[str, Any]]:
    """Yield rows and panels with their positions, numbered from one."""
    number = top = 0
    for row in content:
        number += 1
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        width = COLUMNS // min(3, len(row.panels))
        per_line = COLUMNS // width
        for index, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(index, per_line)
            place = {"x": column * width, "y": top + line * HEIGHT, "w": width, "h": HEIGHT}
            yield _panel_json(panel, number, place)
        top += HEIGHT * -(-len(row.panels) // per_line)


def _panel_json(panel: Panel, number: int, place: Mapping[str, int]) -> Mapping[str, Any]:
    steps: list[Mapping[str, Any]] = [{"color": "green", "value": None}]
    custom: dict[str, Any] = {"fillOpacity": 8, "showPoints": "never", "spanNulls": False}
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
        custom["thresholdsStyle"] = {"mode": "line"}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        defaults["custom"] = custom
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
        if panel.kind == "timeseries"
        else {"colorMode": "background", "reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name"},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for index, (legend, expr) in enumerate(panel.queries.items())
        ],
    }
