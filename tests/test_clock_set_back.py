"""The clock of the machine that runs railbed is set back during a run: that stays readable, and no time is negative."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railbed.api.verbs.diagnose import verdicts_of
from railbed.api.verbs.report import read_all
from railbed.cli.verbs.diagnose.show import show_verdicts
from railbed.cli.verbs.runs.command import runs_command
from railbed.report.document import describe
from railbed.report.formats.data import as_json
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.run import ForwardClock
from railbed.store import read_run_in
from railbed.store.timeline import Timeline
from tests.support.cli import railbed
from tests.support.events import event
from tests.support.runs import made_run, training_run
from tests.support.watched import Generated, generated_run

NEGATIVE = re.compile(r"[-−]\d[\d.,]*\s(s|ms|min|h|d)\b")
BACK = 20.0
FORMATS = ("html", "md", "json", "csv")


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def rewrite(folder: Path, changed: Callable[[int, float], float], **about: float) -> None:
    """Change the times of a run's records by their number, and what `run.json` says."""
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    lines = [json.dumps({**record, "time": changed(index, record["time"])}) for index, record in enumerate(records)]
    (folder / "records.jsonl").write_text("".join(f"{line}\n" for line in lines))
    summary = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(summary | about))


def test_times_only_go_forward() -> None:
    clock = ForwardClock(100.0)
    times = [101.0, 102.0, 101.5, float("inf"), 82.0, 83.0, 70.0, 71.0]
    assert [clock.correct(time) for time in times] == [101.0, 102.0, 102.0, 102.0, 102.0, 103.0, 103.0, 104.0]
    assert clock.set_back == 20.0 + 13.0


def test_a_run_ends_after_it_has_begun() -> None:
    with made_run("check") as (run, clock):
        clock.now -= BACK
        run.finish("done", 0)
    assert run.summary.ended is not None
    assert run.summary.ended >= run.summary.started


@pytest.mark.whole
@pytest.mark.parametrize("place", [0.02, 0.5, 0.95])
def test_a_training_with_a_restart(tmp_path: Path, place: float) -> None:
    """Set back at the beginning, in the middle, and at the end; an older railbed stored the end as it was."""
    folder = training_run(steps=40, fails_at=23)
    count = len((folder / "records.jsonl").read_text().splitlines())
    summary = read_run_in(folder)
    assert summary is not None
    rewrite(folder, lambda index, time: time - BACK * (index >= place * count), ended=summary.started - 8.0)
    for form in FORMATS:
        result = railbed(tmp_path, "report", folder.name, "--format", form, "-o", f"page.{form}")
        assert (result.code, result.err) == (0, ""), result
    page = (tmp_path / "page.md").read_text()
    assert "it was set back by" in page
    assert not NEGATIVE.findall(page)
    listed = railbed(tmp_path, "runs")
    assert (listed.code, NEGATIVE.findall(listed.out)) == (0, [])
    assert "clock set back" in listed.out


@pytest.mark.whole
def test_a_clock_that_is_not_set_is_not_mentioned(tmp_path: Path) -> None:
    assert railbed(tmp_path, "report", training_run(steps=40, fails_at=23), "-o", "-", "--format", "md").code == 0
    assert "set back" not in railbed(tmp_path, "report", "-o", "-", "--format", "md").out


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with series, steps, restarts and checkpoints; the clock is set back in the middle of the samples."""
    about = Generated(nodes=2, seconds=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILBED_RUNS", str(tmp_path_factory.mktemp("sampled") / "runs"))
        with generated_run(about) as (run, write):
            for index in range(about.count):
                write(index if index < about.count // 2 else index - int(BACK))
                if index % 15 == 0:
                    for name, data in OF_A_GENERATION.items():
                        run.append(event(name, subject="node1", message=f"{name} {index}", data=data))
            run.finish("done", 0)
    return run.folder


OF_A_GENERATION: dict[str, dict[str, Any]] = {
    "training": {"run": "x", "recipe": {}},
    "generation": {"generation": 1, "nodes": ["node1", "node2"]},
    "resumed": {"step": 3},
    "checkpoint": {"step": 5},
    "restart": {"generation": 1},
    "node_cut": {},
    "clock_jumped": {"seconds": -BACK},
}


def test_samples_that_overlap(sampled: Path, tmp_path: Path) -> None:
    for verb in ("diagnose", "report"):
        result = railbed(tmp_path, verb, sampled)
        assert result.code in (0, 1), result
        # A busy machine shows what takes seconds.
        assert [line for line in result.err.splitlines() if not line.startswith("writing the report")] == []
        assert not NEGATIVE.findall(result.out)
    watched = railbed(tmp_path, "watch", sampled, "--json")
    assert watched.code == 0, watched


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_records_in_any_order_of_time(sampled: Path, data: st.DataObject) -> None:
    before = (sampled / "records.jsonl").read_text(), (sampled / "run.json").read_text()
    started = json.loads(before[1])["started"]
    moments = st.floats(started - 1e5, started + 1e5)
    pattern: Sequence[float] = data.draw(st.lists(moments, min_size=1, max_size=12))
    ended = data.draw(moments)
    try:
        rewrite(sampled, lambda index, _: pattern[index % len(pattern)], ended=ended)
        assert_readable(sampled)
    finally:
        (sampled / "records.jsonl").write_text(before[0])
        (sampled / "run.json").write_text(before[1])


def assert_readable(folder: Path) -> None:
    timeline = Timeline(folder)
    verdicts = verdicts_of(folder, timeline)
    assert all(finding.until is None or finding.until >= (finding.since or 0.0) for finding in verdicts)
    assert not any(NEGATIVE.search(finding.observed) for finding in verdicts)
    show_verdicts(timeline, verdicts, everything=True)
    document = describe(read_all(folder))
    assert as_html(document)
    assert as_json(document)
    assert not NEGATIVE.findall(as_markdown(document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAILBED_RUNS", str(folder.parent))
        assert runs_command() == 0
