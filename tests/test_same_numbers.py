"""A run shows the same numbers on the terminal, as JSON lines, and in a report as Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from railbed.bench.compare.arms import describe
from railbed.cli.screens.bench import BenchScreen
from railbed.cli.screens.train import TrainSummary
from railbed.model.record import Finding, Measurement, Record, Verdict
from railbed.model.statistics import paired_difference
from railbed.model.text import duration, number
from railbed.store.records import read_record, to_line
from tests.support.cli import railbed
from tests.support.events import event
from tests.support.runs import plain_run

REPEATS = {"n1>n2": (41.0, 97.0, 83.0), "n2>n1": (12.0, 30.0, 31.0), "n1>n3": (55.0, 54.0, 5.0)}
"""Lowest, mean, median and highest differ for each path, and for all of them."""
LOWEST, MEDIAN, HIGHEST = 30.0, 54.0, 83.0
"""Of the medians of the paths."""
LATENCIES = {"min": 3.0, "mean": 9.5, "p50": 7.25, "p90": 30.0, "max": 88.0}


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "runs"


def measured() -> list[Record]:
    """Return the records of a bench run with repeats, and with the distribution of a latency."""
    records: list[Record] = []
    common: dict[str, str | int] = {"tool": "perftest", "pattern": "matrix", "rail": "rail0", "streams": 1}
    for path, values in REPEATS.items():
        labels = common | dict(zip(("from", "to"), path.split(">"), strict=True))
        for repeat, value in enumerate(values, 1):
            own = labels | {"test": "ib_write_bw", "size": 65536, "trial": repeat, "repeat": repeat}
            records.append(Measurement(name="bandwidth", value=value, unit="Gb/s", labels=own))
        for stat, value in LATENCIES.items():
            own = labels | {"test": "ib_write_lat", "size": 2, "trial": 9, "repeat": 1, "stat": stat}
            records.append(Measurement(name="half_round_trip", value=value, unit="us", labels=own))
        samples = labels | {"test": "ib_write_lat", "size": 2, "trial": 9, "repeat": 1}
        records.append(Measurement(name="samples", value=300, unit="1", labels=samples))
    return records


def on_terminal(capsys: pytest.CaptureFixture[str], records: Iterable[Record]) -> list[list[str]]:
    """Return the words of the lines that the terminal shows of a bench run."""
    screen = BenchScreen(verbose=False)
    for record in records:
        screen.show(record)
    screen.finish(Path("runs/1"))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def reports(folder: Path, run: Path) -> tuple[str, dict[str, Any]]:
    """Return the report of a run as Markdown, and as JSON."""
    texts = [railbed(folder, "report", run.name, "--format", form, "-o", "-").out for form in ("md", "json")]
    return texts[0].replace("\\", "").replace("\u00a0", " ").replace("`", ""), json.loads(texts[1])


def tables(part: object) -> Iterable[dict[str, Any]]:
    """Yield every table in a JSON report."""
    if isinstance(part, dict):
        if "columns" in part and "rows" in part:
            yield part
        for value in part.values():
            yield from tables(value)
    elif isinstance(part, list):
        for value in part:
            yield from tables(value)


def as_json_lines(records: Sequence[Record]) -> list[Record]:
    """Return the records as a program reads them from `--json`."""
    return [read_record(to_line(record)) for record in records]


def test_bench(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    records = measured()
    expected = {"ib_write_bw": (LOWEST, MEDIAN, HIGHEST), "ib_write_lat": (LATENCIES["p50"],) * 3}
    lines = {words[0]: words for words in on_terminal(capsys, as_json_lines(records)) if words}
    markdown, data = reports(tmp_path, plain_run(records, verb="bench"))
    rows = [dict(zip(table["columns"], row, strict=True)) for table in tables(data) for row in table["rows"]]
    for test, values in expected.items():
        assert lines[test][4:8] == ["3", *(number(value, 3) for value in values)]
        (cells,) = [row.split(" | ") for row in markdown.splitlines() if row.startswith(f"| {test} ")]
        assert cells[4:8] == ["3", *map(number, values)]
        (row,) = [row for row in rows if row.get("test") == test and "highest" in row]
        assert [_plain(row[column]) for column in ("lowest", "median", "highest")] == list(values)


def _plain(cell: object) -> object:
    return cell["value"] if isinstance(cell, dict) else cell


def test_an_experiment_states_one_mean_of_each_arm(tmp_path: Path) -> None:
    """Also if a repeat of one arm has no partner, and does not count."""
    arms = {"RDMA": (90.0, 96.0, 99.0), "TCP": (40.0, 41.0, 48.0)}
    difference = paired_difference(arms["RDMA"], arms["TCP"])
    sentence = describe(difference, "RDMA", "TCP", "bandwidth", "Gb/s")
    own: dict[str, str | int] = {"comparison": 1, "measure": "bandwidth"}
    records: list[Record] = [
        Measurement(name="arm_value", value=value, unit="Gb/s", labels={**own, "arm": arm, "test": arm, "repeat": at})
        for arm, values in arms.items()
        for at, value in enumerate((*values, *([10.0] if arm == "TCP" else [])), 1)
    ]
    records += [
        Measurement(name="arm_mean", value=value, unit="Gb/s", labels={**own, "arm": arm, "test": arm, "repeats": 3})
        for arm, value in zip(arms, (difference.a, difference.b), strict=True)
    ]
    records += [
        Measurement(
            name="difference", value=value, unit="Gb/s", labels={**own, "a": "RDMA", "b": "TCP", "bound": bound}
        )
        for bound, value in (("mean", difference.mean), ("low", difference.low), ("high", difference.high))
    ]
    answer = Finding(check="bench_difference", subject="b", verdict=Verdict.OK, expected="", observed=sentence, why="")
    markdown, data = reports(tmp_path, plain_run([*records, answer], verb="bench"))
    assert sentence.startswith("RDMA 95.00 Gb/s, TCP 43.00 Gb/s in the mean: ")
    assert sentence in markdown
    (table,) = [table for table in tables(data) if "mean of A" in table["columns"]]
    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert [_plain(row["mean of A"]), _plain(row["mean of B"])] == [95.0, 43.0]
    assert "95.00 | 43.00" in markdown


def test_a_training_without_and_with_a_model(tmp_path: Path) -> None:
    """The median over the steps of the mean over the ranks, wherever a speed or a wait is shown."""
    waits = (0.001, 0.002, 0.9)
    speeds = (500.0, 1000.0, 1200.0)
    records: list[Record] = [
        Measurement(name=name, value=value * (1 + rank), unit=unit, labels={"step": step, "rank": rank, "node": "n1"})
        for step, (wait, speed) in enumerate(zip(waits, speeds, strict=True), 1)
        for rank in (0, 1)
        for name, value, unit in (
            ("loss", 4.0, "nat"),
            ("tokens_per_second", speed, "token/s"),
            ("step_seconds", 1.0, "s"),
            ("allreduce_exposed_seconds", wait, "s"),
        )
    ]
    load = event(name="training", data={"run": "r", "recipe": {"steps": 3, "traffic": {"gradient_bytes": 4_000_000}}})
    model, network = TrainSummary(), TrainSummary()
    for record in as_json_lines(records):
        model.add(record)
    for record in as_json_lines([load, *records]):
        network.add(record)
    markdown, _ = reports(tmp_path, plain_run(records, verb="train"))
    assert "1,500 tokens/s in the median" in model.numbers
    assert "1,500" in next(line for line in markdown.splitlines() if "tokens/s, median" in line)
    waited = duration(0.003)
    assert f"{waited} of a step spent waiting for the network in the median" in network.sentence
    exposed = [line for line in markdown.splitlines() if line.startswith("|") and waited in line]
    assert exposed, markdown
