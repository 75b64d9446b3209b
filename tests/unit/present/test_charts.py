"""The report, the live page and the dashboard take their charts from one list."""

from __future__ import annotations

import pytest
from tests.support.monitored import monitored_cluster

from railbed.model.meters import METERS
from railbed.present.charts import CHART_NAMED, CHARTS, GROUPS, SUMMARIES
from railbed.report.sections.timeline import DRAWN_IN
from railbed.web.monitoring.dashboard import GRAFANA_UNITS, rows
from railbed.web.monitoring.site import MonitoredCluster

PANELS = {
    "loss": "none",
    "step": "s",
    "allreduce": "s",
    "idle": "s",
    "tokens": "none",
    "pause-in": "percentunit",
    "pause-out": "percentunit",
    "tcp": "pps",
    "cpu": "none",
    "softirq": "none",
    "memory": "percentunit",
    "gpu": "percentunit",
    "gpu-memory": "bytes",
    "gpu-power": "watt",
    "gpu-temperature": "celsius",
    "gpu-clock": "hertz",
}
REPORT = {
    "Loss": ("nat", 1.0),
    "Step time": ("s", 1.0),
    "All-reduce wait": ("s", 1.0),
    "Paused (PFC), share of the time": ("%", 1e-4),
    "Pause frames": ("/s", 1.0),
    "Packets marked as congested (ECN)": ("/s", 1.0),
    "Congestion notifications sent (CNP)": ("/s", 1.0),
    "Fullest queue": ("kB", 1e-3),
    "Lost and repeated packets": ("/s", 1.0),
    "Sent": ("Gb/s", 8e-9),
    "Busy processors": ("", 1e-6),
    "GPUs busy, the busiest of a node": ("%", 100.0),
}


def test_every_series_is_in_one_chart_of_the_page() -> None:
    drawn = [meter for chart in CHARTS for meter in chart.meters]
    assert sorted(drawn) == sorted(METERS)
    assert len(CHART_NAMED) == len(CHARTS)
    assert {chart.group for chart in CHARTS} <= GROUPS.keys()


def test_the_meters_of_a_chart_can_share_its_axes() -> None:
    for chart in (*CHARTS, *SUMMARIES):
        assert len({METERS[meter].kind for meter in chart.meters}) == 1, chart.name
        if chart.unit in ("bit/s", "B", "share", "cores"):
            assert len({METERS[meter].unit for meter in chart.meters}) == 1, chart.name


def test_the_report_has_the_units_that_its_readers_know() -> None:
    assert [chart.title for chart in SUMMARIES] == list(REPORT)
    for chart in SUMMARIES:
        unit, factor = DRAWN_IN.get(chart.unit, (chart.unit, 1.0))
        assert unit == REPORT[chart.title][0]
        assert chart.scale * factor == pytest.approx(REPORT[chart.title][1])
    assert {chart.title for chart in SUMMARIES if chart.group != "summary"} <= {chart.title for chart in CHARTS}


def test_the_dashboard_has_the_titles_and_notes_of_the_page() -> None:
    panels = {panel.title: panel for row in rows(MonitoredCluster(monitored_cluster())) for panel in row.panels}
    for name, unit in PANELS.items():
        chart = CHART_NAMED[name]
        assert (panels[chart.title].unit, panels[chart.title].text) == (unit, chart.note)
    assert set(GRAFANA_UNITS.values()) <= {panel.unit for panel in panels.values()}
