"""The report on a capture: what its sections show, from records alone, and the page in a browser."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tools.record_examples import EXAMPLES

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context
from railbed.capture.book import CAPTURE_BOOK
from railbed.capture.records import records_of
from railbed.clusterfile import loads
from railbed.model.events import IncastSeen, PortPaused, RecordingRead
from railbed.model.record import Record
from railbed.report import Report, describe, read
from railbed.report.blocks import Block, Figure, LadderBlock, TableBlock
from railbed.report.formats.data import as_csv, as_json
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.run import RunData
from railbed.rules.engine import judge
from railbed.store import RunSummary, open_run
from tests.captures import scenes
from tests.captures.exchange import FIRST, SECOND, port
from tests.support.browser import Browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two nodes: congestion that a sender obeys, and lost packets."""
    first, second = scenes.troubled_network(offset=3 * scenes.MILLISECOND)
    recordings = [port(first, FIRST, "node1"), port(second, SECOND, "node2")]
    analysis = analyse(recordings, Context.of(loads(scenes.CLUSTER, name="cluster.yaml")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILBED_RUNS", str(tmp_path_factory.mktemp("captured") / "runs"))
        with open_run("capture", cluster_name="lab", cluster_text=scenes.CLUSTER) as run:
            for recording in recordings:
                count, size = len(recording.packets), int(recording.packets["length"].sum())
                run.append(
                    RecordingRead(
                        subject=recording.name,
                        file=recording.file,
                        packets=count,
                        total=count,
                        bytes=size,
                        snap_length=96,
                        dropped=0,
                    )
                )
            records: list[Record] = [*records_of(analysis), *judge(CAPTURE_BOOK, analysis)]
            for record in records:
                run.append(record)
            run.finish("done", 1)
    return run.folder


@pytest.fixture(scope="module")
def document(folder: Path) -> Report:
    return describe(read(folder))


def blocks_of(document: Report, name: str) -> list[Block]:
    (part,) = [part for part in document.parts if part.name == f"packets_{name}"]
    return list(part.blocks)


def test_sections_of_a_capture(document: Report) -> None:
    names = [name for name in document.sections if name.startswith("packets")]
    assert names == [f"packets_{name}" for name in ("verdicts", "rates", "ladders", "flows", "recordings")]
    assert "findings" not in document.sections
    assert document.verdict.tone == "bad"


def test_rate_marks_and_notifications_share_an_axis(document: Report) -> None:
    rate, marks, notices = [block for block in blocks_of(document, "rates") if isinstance(block, Figure)]
    assert len({str(figure.layout["xaxis"]["range"]) for figure in (rate, marks, notices)}) == 1
    assert [trace["name"] for trace in rate.traces] == ["node1/ens1, QP 49", "node1/ens1, QP 65"]
    when = [at for at, value in zip(marks.traces[0]["x"], marks.traces[0]["y"], strict=True) if value]
    assert (min(when), max(when)) == pytest.approx((20, 24), abs=0.3)
    assert sum(notices.traces[0]["y"]) == 40
    before, during = (rate.traces[0]["y"][round(at / 60 * len(rate.traces[0]["y"]))] for at in (10, 26))
    assert during / before == pytest.approx(0.5, abs=0.2)


def test_a_ladder_has_a_row_for_each_packet_and_lines_that_go_down(document: Report) -> None:
    ladder = next(block for block in blocks_of(document, "ladders") if isinstance(block, LadderBlock))
    assert (ladder.left, ladder.right) == ("node1", "node2")
    assert [rung.sent for rung in ladder.rungs] == [place + 0.5 for place in range(len(ladder.rungs))]
    assert all(rung.arrived > rung.sent for rung in ladder.rungs if rung.arrived is not None)
    (lost,) = [rung for rung in ladder.rungs if rung.arrived is None]
    assert (lost.note, lost.tone) == ("lost", "bad")
    (refused,) = [rung for rung in ladder.rungs if rung.note == "sequence error"]
    assert (refused.to, refused.text) == ("left", lost.text.replace("SEND Only", "NAK"))
    assert any(rung.note == "sent again" and rung.text == lost.text for rung in ladder.rungs)


def test_flows_have_their_counts_and_no_empty_columns(document: Report) -> None:
    table = next(block for block in blocks_of(document, "flows") if isinstance(block, TableBlock))
    assert "out of order" not in table.columns
    rows = [dict(zip(table.columns, map(str, row), strict=True)) for row in table.rows]
    assert [(row["flow"], row["lost"], row["CNP"]) for row in rows] == [
        ("node1/ens1 → node2/ens1", "0", "40"),
        ("node1/ens1 → node2/ens1", "4", "0"),
    ]


def test_other_formats_have_the_same(document: Report) -> None:
    text = as_markdown(document)
    for words in ("What the packets prove", "frame.number in", "NAK", "Reactions to notifications"):
        assert words in text
    sections = {section["name"]: section for section in json.loads(as_json(document))["sections"]}
    ladder = next(block for block in sections["packets_ladders"]["blocks"] if block["type"] == "ladder")
    assert ladder["table"]["columns"][:2] == ["at the left", "at the right"]


def test_csv_has_the_numbers_of_flows(folder: Path) -> None:
    rows = list(csv.DictReader(as_csv(folder).decode().splitlines()))
    (lost,) = [row for row in rows if row["name"] == "flow_lost_packets" and row["qp"] == "65"]
    assert (lost["value"], lost["path"]) == ("4.0", "node1/ens1 → node2/ens1")
    notices = [float(row["value"]) for row in rows if row["name"] == "flow_interval_cnp_packets"]
    assert sum(notices) == 40


def test_pauses_and_incast() -> None:
    examples = [event for event in EXAMPLES if isinstance(event, RecordingRead | PortPaused | IncastSeen)]
    summary = RunSummary(id="x", verb="capture", arguments=[], cluster="lab", version="1", started=0.0, status="done")
    document = describe(RunData(summary=summary, events=examples))
    tables = [block for block in blocks_of(document, "pressure") if isinstance(block, TableBlock)]
    assert [str(cell) for cell in tables[0].rows[0][2:5]] == ["3", "20", "10"]
    assert [str(cell) for cell in tables[1].rows[0][1:4]] == ["10.0.0.1 and 10.0.0.2", "31", "12"]


def test_other_runs_have_no_such_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path))
    with open_run("check", cluster_name="lab", cluster_text="name: lab\n") as run:
        run.finish("done", 0)
    assert not [name for name in describe(read(run.folder)).sections if name.startswith("packets")]


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
@pytest.mark.whole
def test_the_page_in_a_browser(browser: Browser, document: Report, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(as_html(document), encoding="utf-8")
    browser.open(page)
    middle = "document.querySelector('.ladder svg').getBoundingClientRect().width"
    for width in browser.looks("capture"):
        assert browser.evaluate(middle) > (300 if width > 500 else 90)
    browser.look(width=360)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert browser.complaints == []
