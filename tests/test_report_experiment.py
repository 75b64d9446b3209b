"""A against B on the page: every repeat of both arms, and the difference with its interval, as in the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from railbed.bench import experiments
from railbed.bench.compare.arms import Contest, Side, answer
from railbed.bench.compare.visits import first_visit_event
from railbed.model.record import Measurement, Record
from railbed.report import describe, read
from railbed.report.blocks import Figure, TableBlock, Value
from railbed.report.formats.data import as_json
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.sections import experiment as section
from tests.support.browser import NARROW, Browser
from tests.support.runs import plain_run

RDMA, TCP = (92.1, 92.4, 92.2), (41.0, 39.5, 40.25)


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def compared(number: int, a: Sequence[float], b: Sequence[float], *, name: str = "rdma-vs-tcp") -> list[Record]:
    """Return the records of one comparison, as the experiment itself makes them."""
    question = experiments.load(name)
    comparison = question.comparisons[number - 1]
    sides = [Side(arm=question.a, step=comparison.a), Side(arm=question.b, step=comparison.b)]
    contest = Contest(number=number, comparison=comparison, a=sides[0], b=sides[1])
    measurements: list[Record] = [
        contest.add(side, at, value)
        for side, values in zip(sides, (a, b), strict=True)
        for at, value in enumerate(values, 1)
    ]
    return [*measurements, *answer(contest)]


def experiment_run() -> Path:
    return plain_run([*compared(1, RDMA, TCP), *compared(2, (1.81, 1.79, 9.8), (12.0, 3.1, 11.4))], verb="bench")


def test_the_plots_and_the_table_have_the_numbers_of_the_records() -> None:
    run = read(experiment_run())
    blocks = section.show(run) or ()
    differences, first, second = (block for block in blocks if isinstance(block, Figure))
    assert [(trace["name"], trace["y"]) for trace in first.traces] == [("RDMA", list(RDMA)), ("TCP", list(TCP))]
    assert first.keys == [("RDMA", "c1"), ("TCP", "c2")]
    assert [trace["name"] for trace in second.traces] == ["RDMA", "TCP"]
    bounds = {
        (measurement.labels["comparison"], measurement.labels["bound"]): measurement.value
        for measurement in run.measurements
        if measurement.name == "difference"
    }
    mean = sum(RDMA) / 3
    (dots,) = differences.traces
    assert dots["x"][0] == pytest.approx(100 * bounds[1, "mean"] / mean)
    assert dots["error_x"]["array"][0] == pytest.approx(100 * (bounds[1, "high"] - bounds[1, "mean"]) / mean)
    (table,) = (block for block in blocks if isinstance(block, TableBlock))
    low = table.rows[0][table.columns.index("at least")]
    assert isinstance(low, Value)
    assert low.value == pytest.approx(bounds[1, "low"] / mean)


def test_the_verdict_says_whether_a_difference_is_seen() -> None:
    assert "a difference is seen in 1 of 2 comparisons" in describe(read(experiment_run())).sentence
    none = plain_run(compared(1, (10, 11, 9), (9, 10, 11)), verb="bench")
    assert "no difference is seen" in describe(read(none)).sentence


def test_a_first_visit_says_what_is_to_be_done() -> None:
    question = experiments.load("direct-vs-switch")
    arms = [
        record
        for record in compared(1, (1.0, 1.1, 1.2), (), name="direct-vs-switch")
        if isinstance(record, Measurement)
    ]
    run = plain_run([*arms, first_visit_event("direct-vs-switch", question, [])], verb="bench")
    document = describe(read(run))
    assert "the first of two visits: measured direct; now plug the rail cables" in document.sentence
    assert document.figures == 1
    assert f"<code>railbed bench --second-visit {run.name}</code>" in as_html(document)


def test_other_formats_have_the_differences_by_name() -> None:
    document = describe(read(experiment_run()))
    assert "|  | % |\n| --- | ---: |\n| bandwidth | −56." in as_markdown(document)
    (part,) = [part for part in json.loads(as_json(document))["sections"] if part["name"] == "experiment"]
    (series,) = next(block for block in part["blocks"] if block["type"] == "figure")["series"]
    assert series["text"] == ["bandwidth", "half a round trip"]
    assert len(series["reach"]) == len(series["x"]) == 2


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_plots_are_drawn(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "experiment.html"
    page.write_text(as_html(describe(read(experiment_run()))))
    browser.look(width=NARROW)
    browser.open(page)
    for _ in browser.looks("experiment"):
        assert browser.evaluate("document.querySelectorAll('.plot svg.main-svg .points path').length") == 2 + 4 * 3
        assert browser.evaluate("document.querySelectorAll('.plot svg.main-svg .errorbar').length") == 2
    assert browser.complaints == []
