"""The report's charts on one time axis: what they show of a sampled run, and the page in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed.model import events
from railbed.model.meters import MISSING, Sample, SeriesKey
from railbed.model.record import Measurement
from railbed.report import Report, describe, read
from railbed.report.blocks import Block, Figure, TableBlock
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.run import with_timeline
from railbed.store import open_run
from railbed.store.series import SeriesWriter
from tests.support.browser import Browser

pytestmark = pytest.mark.usefixtures("runs_here")
START = 1_790_000_000.0
SECONDS = 600
NODES = tuple(f"node{number}" for number in range(1, 5))


def layout_of(node: str) -> tuple[SeriesKey, ...]:
    return (
        SeriesKey(node, "net_tx_bytes", "rail0"),
        SeriesKey(node, "net_tx_bytes", "rail1"),
        SeriesKey(node, "cpu_busy_us"),
        SeriesKey(node, "pause_rx_us", "rail0", "3"),
        SeriesKey(node, "rdma_cnp_sent", "rail0"),
        SeriesKey(node, "gpu_busy", part="0"),
    )


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of ten minutes in which node2 is paused for a minute, and node3 is not sampled for half a minute."""
    monkeypatch.setattr("time.time", lambda: START)
    with open_run("train", cluster_name="lab", cluster_text="name: lab\n") as run:
        with SeriesWriter(run.folder) as writer:
            write_samples(writer)
        for step in range(1, SECONDS // 2):
            slow = 3.0 if 150 <= step < 160 else 1.0
            for rank, node in enumerate(NODES):
                labels: dict[str, str | int] = {"step": step, "rank": rank, "node": node}
                at = START + 2 * step
                run.append(Measurement(name="step_seconds", value=2 * slow, unit="s", labels=labels, time=at))
        run.append(events.GenerationFailed(subject="node2", message="node2 is gone", time=START + 500.5))
        run.append(events.LabFaultSet(subject="node2", message="node2: slow", fault="slow", time=START + 300))
        monkeypatch.setattr("time.time", lambda: START + SECONDS)
        run.finish("done", 0)
    return run.folder


def write_samples(writer: SeriesWriter) -> None:
    layouts = {node: layout_of(node) for node in NODES}
    paused = 0
    for second in range(SECONDS):
        paused += 500_000 if 300 <= second < 360 else 0
        for number, (node, layout) in enumerate(layouts.items()):
            if node == "node3" and 400 <= second < 430:
                continue
            sent = second * 125_000_000 * (number + 1)
            values = [sent, sent, second * 700_000, paused if node == "node2" else 0, 0, MISSING]
            writer.append(Sample(node, START + second, layout, values))


def report_of(folder: Path) -> Report:
    return describe(with_timeline(read(folder), folder))


def section_of(folder: Path) -> list[Block]:
    (part,) = [part for part in report_of(folder).parts if part.name == "timeline"]
    return list(part.blocks)


def test_charts_have_the_same_axis_and_leave_out_what_never_happened(folder: Path) -> None:
    figures = {block.title: block for block in section_of(folder) if isinstance(block, Figure)}
    assert list(figures) == ["Step time", "Paused (PFC), share of the time", "Sent", "Busy processors"]
    assert len({str(figure.layout["xaxis"]["range"]) for figure in figures.values()}) == 1
    assert {len(figure.layout["shapes"]) for figure in figures.values()} == {3}
    sent = {trace["name"]: trace for trace in figures["Sent"].traces}
    assert list(sent) == list(NODES)
    assert max(value for value in sent["node4"]["y"] if value is not None) == pytest.approx(8.0)
    assert (None in sent["node3"]["y"], None in sent["node4"]["y"]) == (True, False)
    steps = figures["Step time"].traces[0]
    assert [steps["x"][index] for index, value in enumerate(steps["y"]) if value is None] == pytest.approx(
        [8.35], abs=0.1
    )
    (paused,) = [trace for trace in figures["Paused (PFC), share of the time"].traces if trace["name"] == "node2"]
    high = [minute for minute, value in zip(paused["x"], paused["y"], strict=True) if value == 50.0]
    assert (min(high), max(high)) == pytest.approx((5.0, 6.0), abs=0.1)


def test_marks_are_named(folder: Path) -> None:
    (table,) = [block for block in section_of(folder) if isinstance(block, TableBlock)]
    rows = [[str(getattr(cell, "text", cell)) for cell in row] for row in table.rows]
    assert rows[0] == ["5\xa0min 0\xa0s", "fault", "node2", "slow"]
    assert rows[1][1:3] == ["pause", "node2"]


def test_a_page_stays_small_and_markdown_is_readable(folder: Path) -> None:
    document = report_of(folder)
    charts = sum(
        len(str(block.traces)) for part in document.parts for block in part.blocks if isinstance(block, Figure)
    )
    assert charts < 400_000
    assert "On one time axis" in as_markdown(document)
    assert "On one time axis" in as_html(document)


def test_a_run_that_was_not_sampled_has_no_such_section(folder: Path) -> None:
    (folder / "series").rename(folder / "elsewhere")
    assert "timeline" not in report_of(folder).sections


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.whole
def test_the_charts_in_a_browser(browser: Browser, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(as_html(report_of(folder)), encoding="utf-8")
    ranges = "JSON.stringify([...document.querySelectorAll('#timeline .plot')].map(plot => plot.layout.xaxis.range))"
    browser.open(page)
    before = browser.evaluate(ranges)
    lefts = browser.evaluate(
        "[...new Set([...document.querySelectorAll('#timeline .plot .bglayer')].map("
        "layer => Math.round(layer.getBoundingClientRect().left)))]"
    )
    browser.photograph("timeline")
    assert isinstance(lefts, list)
    browser.evaluate(
        "Plotly.relayout(document.querySelector('#timeline .plot'), {'xaxis.range': [4, 7]}).then(() => 1)"
    )
    assert browser.evaluate(ranges) == str(before).replace("[0,10]", "[4,7]")
    assert browser.complaints == []
