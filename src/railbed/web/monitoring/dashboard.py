"""A Grafana dashboard for a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railbed.web.monitoring.charts import Panel, Row, rows
from railbed.web.monitoring.site import MonitoredCluster

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
        "panels": list(_placed(rows(site))),
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


def _placed(content: Sequence[Row]) -> Iterator[Mapping[str, Any]]:
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
            yield _panel(panel, number, place)
        top += HEIGHT * -(-len(row.panels) // per_line)


def _panel(panel: Panel, number: int, place: Mapping[str, int]) -> Mapping[str, Any]:
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
