"""The figures of a training run: from its records alone, and only of steps that remained in the history."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.support.events import event
from tests.support.runs import ESTIMATES, RECIPE, STARTED, plain_run, training_run

from railbed.model.record import Event, Measurement, Record
from railbed.report import describe, read
from railbed.report.formats.html import as_html
from railbed.report.reading.metrics import OF_STEP, as_json, metrics
from railbed.store.tensorboard import TensorBoardLogs


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def measured(name: str, step: int, value: float, rank: int = 0) -> Measurement:
    labels: dict[str, str | int] = {"step": step, "rank": rank, "node": "ab"[rank]}
    return Measurement(name=name, value=value, unit="s", labels=labels, time=STARTED + step)


def generation(number: int) -> Event:
    return event(name="generation", data={"generation": number, "nodes": ["a", "b"]}, time=STARTED)


def file_of(folder: Path) -> Any:
    return json.loads(as_json(metrics(read(folder))))


def by_hand(folder: Path) -> dict[tuple[str, int], dict[int, float]]:
    """Read the records without the report: the last value of a step and rank counts."""
    values: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for line in (folder / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "measurement" and "step" in record["labels"]:
            values[record["name"], record["labels"]["step"]][record["labels"]["rank"]] = record["value"]
    return values


def test_every_step_is_what_the_records_say() -> None:
    folder = training_run()
    expected, figures = by_hand(folder), file_of(folder)
    assert [row["step"] for row in figures["steps"]] == list(range(1, 301))
    for row in figures["steps"]:
        for name in OF_STEP:
            values = expected[name, row["step"]].values()
            assert row[name] == (pytest.approx(fmean(values)) if values else None), name
        for name in ("bytes_sent", "idle_seconds"):
            assert {int(rank): value for rank, value in row[name].items()} == expected[name, row["step"]]


def test_the_figures_of_the_run() -> None:
    folder = training_run()
    expected, figures = by_hand(folder), file_of(folder)
    assert (figures["kind"], figures["run"], figures["status"], figures["exit"]) == (
        "training_metrics",
        folder.name,
        "done",
        0,
    )
    assert figures["recipe"] == RECIPE
    assert (figures["parameters"], figures["nodes"]) == (3_174_144, ["node1", "node2"])
    assert (figures["steps_in_history"], figures["steps_thrown_away"]) == (300, 23)
    assert figures["total_tokens"] == 300 * 32 * 128
    (restart,) = figures["restarts"]
    assert (restart["node"], restart["why"]) == ("node2", "node2: rank 1 was ended by SIGKILL")
    useful = sum(fmean(expected["step_seconds", step].values()) for step in range(1, 301))
    assert figures["useful_seconds"] == pytest.approx(useful)
    assert figures["total_seconds"] > figures["useful_seconds"]
    assert sum(figures["time"].values()) == pytest.approx(useful)
    first, second = figures["ranks"]
    assert (first["rank"], first["node"], first["steps"], first["bytes_sent"]) == (0, "node1", 300, 300 * 6_348_288)
    assert second["idle_seconds"] == pytest.approx(sum(expected["idle_seconds", step][1] for step in range(1, 301)))
    assert figures["memory"][1] == {"node": "node2", **ESTIMATES["node2"], "peak_memory_bytes": 701_000_000}


def steps_in_tensorboard(folder: Path, records: Iterable[Record]) -> list[int]:
    """Return the steps whose loss TensorBoard shows."""
    logs = TensorBoardLogs(folder)
    for record in records:
        logs.take(record)
    logs.close()
    curves = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return [point.step for point in curves.Scalars("loss")]


def test_what_a_restart_went_back_behind_is_gone_though_nobody_did_it_again() -> None:
    """The second generation was interrupted before it came as far as the first."""
    records: list[Record] = [generation(1)]
    records += [measured("step_seconds", step, 1.0, rank) for step in range(1, 21) for rank in (0, 1)]
    records += [measured("loss", step, 9.0 - step / 10) for step in range(1, 21)]
    records += [measured("validation_loss", 20, 7.0)]
    records += [event(name="restart", subject="b", message="b: gone", time=STARTED + 20), generation(2)]
    records += [measured("step_seconds", step, 2.0) for step in (11, 12)]
    records += [measured("loss", step, 5.0) for step in (11, 12)]
    folder = plain_run(records, status="stopped", code=130)
    figures = file_of(folder)
    assert (figures["steps_in_history"], figures["steps_thrown_away"]) == (12, 10)
    assert [row["loss"] for row in figures["steps"]][-3:] == [8.0, 5.0, 5.0]
    assert figures["validation_loss"] is None
    assert figures["useful_seconds"] == 10 * 1.0 + 2 * 2.0
    assert "validation loss" not in as_html(describe(read(folder)))


def test_a_validation_made_up_for_after_a_restart_throws_no_step_away() -> None:
    """Ranks that continue from step 10 validate that state first; the step itself belongs to the previous one."""
    records: list[Record] = [generation(1)]
    records += [measured("loss", step, 9.0) for step in range(1, 11)]
    records += [event(name="restart", subject="b", message="b: gone", time=STARTED + 20), generation(2)]
    records += [measured("validation_loss", 10, 7.0), *(measured("loss", step, 5.0) for step in (11, 12))]
    folder = plain_run(records)
    figures = file_of(folder)
    assert [row["loss"] for row in figures["steps"]] == [9.0] * 10 + [5.0] * 2
    assert figures["steps"][9]["validation_loss"] == figures["validation_loss"] == 7.0
    assert steps_in_tensorboard(folder, records) == list(range(1, 13))


def test_ranks_that_resume_from_the_last_step_throw_no_step_away() -> None:
    """A node returned while the last checkpoint was written: ranks resume from it, report their memory and are done."""
    records: list[Record] = [generation(1), *(measured("loss", step, 9.0) for step in range(1, 11))]
    records += [event(name="restart", subject="b", message="b returned", time=STARTED + 20), generation(2)]
    records += [measured("peak_memory_bytes", 10, 4e8, rank) for rank in (0, 1)]
    folder = plain_run(records)
    assert file_of(folder)["steps_in_history"] == 10
    assert steps_in_tensorboard(folder, records) == list(range(1, 11))


def test_what_was_not_measured_is_null() -> None:
    figures = file_of(plain_run([generation(1), measured("step_seconds", 1, 0.5)]))
    (row,) = figures["steps"]
    assert row["step_seconds"] == 0.5
    assert row["loss"] is row["mfu"] is row["idle_seconds"] is None
    assert figures["mfu"] is figures["parameters"] is figures["total_tokens"] is None
    assert figures["ranks"][0]["bytes_sent"] is None


def test_padding_is_not_counted_as_tokens() -> None:
    recipe = {**RECIPE, "model": {"family": "pretrained", "context": 128}}
    started = event(name="training", data={"recipe": recipe})
    steps = [measured("loss", step, 2.0) for step in (1, 2)]
    counts = [
        measured(name, step, value) for name, value in (("tokens", 900), ("trained_tokens", 300)) for step in (1, 2)
    ]
    speed = [measured("tokens_per_second", step, 450.0) for step in (1, 2)]
    folder = plain_run([started, generation(1), *steps, *counts, *speed])
    figures = file_of(folder)
    assert (figures["total_tokens"], figures["trained_tokens"]) == (1800, 600)
    assert "1,800 without padding, of which 600 were learned" in as_html(describe(read(folder)))
    unknown = file_of(plain_run([started, generation(1), *steps]))
    assert unknown["total_tokens"] is unknown["trained_tokens"] is None


def test_a_run_that_never_trained_has_figures_too() -> None:
    folder = plain_run([event(name="error", message="too big")], status="failed", code=2)
    text = as_json(metrics(read(folder))).decode()
    figures = json.loads(text)
    assert (figures["status"], figures["exit"], figures["steps"], figures["useful_seconds"]) == ("failed", 2, [], 0)
    assert text.endswith("\n}\n")


def test_a_line_of_the_file_is_a_step() -> None:
    lines = as_json(metrics(read(training_run(steps=60, fails_at=None)))).decode().splitlines()
    rows = [json.loads(line.rstrip(",")) for line in lines if line.startswith('  {"step"')]
    assert [row["step"] for row in rows] == list(range(1, 61))
