"""The page about a bench run: its numbers are those of the records, and its plots are drawn by a real browser."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.present.bench import groups
from railbed.report.reading.run import read
from tests.support.browser import NARROW, Browser
from tests.support.cli import railbed
from tests.support.events import event
from tests.support.runs import plain_run

NODES = ("node1", "node2", "node3", "node4")


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def bench_run() -> Path:
    """Write a run of four nodes: bandwidths with a slow node, latencies, a collective over sizes, an answer."""
    records: list[Record] = [event(name="bench", subject="quick", message="quick", data={"trials": 12})]
    for source, target in permutations(NODES, 2):
        labels: dict[str, str | int] = {
            "tool": "perftest",
            "version": "perftest 6.06",
            "rail": "rail0",
            "from": source,
            "to": target,
        }
        slow = 0.4 if "node3" in (source, target) else 1.0
        matrix = {**labels, "test": "ib_write_bw", "size": 65536, "pattern": "matrix", "streams": 1}
        records.append(Measurement(name="bandwidth", value=92.5 * slow, unit="Gb/s", labels=matrix))
        for stat, value in (("min", 1.7), ("p50", 1.8), ("p90", 1.9), ("p99", 2.4), ("p99.9", 8.5), ("max", 40.2)):
            latency = {**labels, "test": "ib_write_lat", "size": 2, "pattern": "matrix", "stat": stat}
            records.append(Measurement(name="half_round_trip", value=value, unit="us", labels=latency))
    for power in range(3, 28, 4):
        sized = {"tool": "railbed", "test": "all_reduce", "engine": "gloo", "size": 2**power, "ranks": 4}
        records.append(Measurement(name="bus_bandwidth", value=min(9.0, 2**power / 1e6), unit="GB/s", labels=sized))
    answer = "RDMA 92.5 Gb/s, TCP 40.1 Gb/s: TCP is worse by 56.6 % (-57.0 % to -56.2 %, 95 % confidence, 5 repeats)"
    records.append(
        Finding(check="bench_difference", subject="bandwidth", verdict=Verdict.OK, expected="", observed=answer, why="")
    )
    return plain_run(records, verb="bench")


def test_the_numbers_of_the_page_are_those_of_the_records(tmp_path: Path) -> None:
    run = bench_run()
    by_test = {(group.test, group.size): group for group in groups(read(run).measurements)}
    assert by_test["ib_write_bw", 65536].paths["node1", "node3"] == [92.5 * 0.4]
    assert len(by_test["ib_write_bw", 65536].paths) == 12
    assert by_test["ib_write_lat", 2].values == [1.8] * 12
    result = railbed(tmp_path, "report", run.name, "--json")
    (record,) = result.records
    assert record["data"]["sections"][:3] == ["verdict", "experiment", "measured"]
    assert record["data"]["figures"] == 4
    page = (run / "report.html").read_text()
    for text in ("37.00", "92.50", "TCP is worse by 56.6 %", "perftest 6.06"):
        assert text in page, text


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_plots_are_drawn(browser: Browser, tmp_path: Path) -> None:
    run = bench_run()
    assert railbed(tmp_path, "report", run.name).code == 0
    browser.look(width=NARROW)
    browser.open(run / "report.html")
    for _ in browser.looks("bench"):
        assert browser.evaluate("document.querySelectorAll('.plot svg.main-svg .hm image').length") == 2
        assert browser.evaluate("document.querySelectorAll('.plot svg.main-svg path.js-line').length") == 2
    assert browser.complaints == []
