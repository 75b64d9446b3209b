"""One median per measure: page, terminal and file all show the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from tests.support.events import event
from tests.support.runs import plain_run

from railbed.cli.screens.train import TrainSummary
from railbed.model.record import Measurement, Record
from railbed.report import describe, read
from railbed.report.blocks import Facts, Figure, TableBlock, Value
from railbed.report.document import Report, all_blocks
from railbed.report.reading.metrics import metrics

UNITS = {"tokens_per_second": "token/s", "mfu": "1", "loss": "1"}


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def step_records(step: int, pace: float) -> Iterator[Record]:
    """Two ranks that do not agree, and a first step that compiles."""
    for rank in (0, 1):
        seconds = pace * (1 + 0.3 * rank) * (40 if step == 1 else 1) * (1 + 0.01 * step)
        numbers = {
            "step_seconds": seconds,
            "forward_seconds": 0.4 * seconds,
            "allreduce_exposed_seconds": 0.6 * seconds,
            "tokens_per_second": 1000 / seconds,
            "mfu": 0.2 / seconds,
            "loss": 5 / step,
            "bytes_sent": 1000.0 + rank,
        }
        for name, value in numbers.items():
            labels: dict[str, str | int] = {"step": step, "rank": rank, "node": f"node{rank + 1}"}
            yield Measurement(name=name, value=value, unit=UNITS.get(name, "s"), labels=labels)


def story() -> Iterator[Record]:
    """Tell of a generation that was slow and lost half of its steps, and one that was fast."""
    yield event(name="generation", data={"generation": 1, "nodes": ["node1", "node2"]})
    for step in range(1, 13):
        yield from step_records(step, 0.9)
    yield event(name="restart", subject="node2", message="lost")
    yield event(name="generation", data={"generation": 2, "nodes": ["node1", "node2"]})
    for step in range(6, 20):
        yield from step_records(step, 0.2)


def expected(name: str) -> float:
    """Return the median over steps of the mean over ranks, of what stands."""
    last: dict[int, dict[object, float]] = {}
    for record in story():
        if isinstance(record, Measurement) and record.name == name:
            last.setdefault(int(record.labels["step"]), {})[record.labels["rank"]] = record.value
    return median(sum(by.values()) / len(by) for by in last.values())


def facts(document: Report, section: str) -> dict[str, object]:
    (part,) = [part for part in document.parts if part.name == section]
    return {name: value for block in part.blocks if isinstance(block, Facts) for name, value in block.items}


def rows(document: Report, section: str, column: str) -> dict[str, float]:
    """Return a column of a section's table by what stands in front."""
    (part,) = [part for part in document.parts if part.name == section]
    (table,) = [block for block in part.blocks if isinstance(block, TableBlock)]
    at = list(table.columns).index(column)
    values = {}
    for row in table.rows:
        name, value = row[0], row[at]
        if isinstance(value, Value):
            values[name if isinstance(name, str) else name.text] = value.value
    return values


def test_one_median_of_each_measure() -> None:
    folder = plain_run(story())
    run = read(folder)
    document = describe(run)
    short, speed, figures = facts(document, "verdict"), facts(document, "speed"), metrics(run)
    method, time = rows(document, "method", "median"), rows(document, "time", "median")
    tokens, mfu, step = expected("tokens_per_second"), expected("mfu"), expected("step_seconds")
    shown = short["tokens/s, median"], short["MFU, median"]
    assert all(isinstance(message, Value) for message in shown)
    assert [message.value for message in shown if isinstance(message, Value)] == pytest.approx([tokens, mfu])
    assert str(speed["tokens/s"]).startswith(f"{tokens:,.0f} in the median")
    assert str(speed["MFU"]).replace("\N{NO-BREAK SPACE}", " ").startswith(f"{100 * mfu:.3g} % in the median")
    assert (figures["tokens_per_second"], figures["mfu"]) == pytest.approx((tokens, mfu))
    for name in ("tokens_per_second", "mfu", "step_seconds", "forward_seconds", "allreduce_exposed_seconds"):
        assert method[name] == pytest.approx(expected(name)), name
    assert time["whole step"] == pytest.approx(step)
    assert time["forward"] == pytest.approx(expected("forward_seconds"))
    assert time["exposed all-reduce"] == pytest.approx(expected("allreduce_exposed_seconds"))


def test_ranks_are_those_of_the_metrics() -> None:
    """The table, the bars and the file take the same steps of a rank."""
    run = read(plain_run(story()))
    document = describe(run)
    by_rank = {str(rank_metrics["rank"]): rank_metrics for rank_metrics in metrics(run)["ranks"]}
    for column, name in (("step, median", "step_seconds"), ("sent", "bytes_sent"), ("steps", "steps")):
        assert rows(document, "ranks", column) == pytest.approx(
            {rank: rank_metrics[name] for rank, rank_metrics in by_rank.items()}
        )
    (part,) = [part for part in document.parts if part.name == "ranks"]
    bars = next(block for block in all_blocks(part.blocks) if isinstance(block, Figure))
    assert sorted(bars.traces[0]["y"]) == pytest.approx(
        sorted(1000 * value["step_seconds"] for value in by_rank.values())
    )


def test_the_terminal_ends_with_the_numbers_of_the_report() -> None:
    summary = TrainSummary()
    for record in story():
        summary.add(record)
    run = read(plain_run(story()))
    loss = metrics(run)["loss"]
    speed = f"{expected('tokens_per_second'):,.0f} tokens/s in the median"
    assert summary.numbers == f"loss {loss['begin']:.3f} → {loss['end']:.3f}, {speed}"
    assert TrainSummary().numbers == ""


def test_numbers_of_different_tests_have_no_median_in_common() -> None:
    def bandwidth(test: str, value: float) -> Measurement:
        labels: dict[str, str | int] = {"test": test, "from": "a", "to": "b"}
        return Measurement(name="bandwidth", value=value, unit="Gb/s", labels=labels)

    mixed = [bandwidth("write", 90.0), bandwidth("write", 92.0), bandwidth("tcp", 9.0)]
    document = describe(read(plain_run(mixed, verb="bench")))
    assert rows(document, "method", "median") == {}
    assert rows(document, "method", "values") == {"bandwidth": 3}
    alike = describe(read(plain_run(mixed[:2], verb="bench")))
    assert rows(alike, "method", "median") == {"bandwidth": 91.0}
