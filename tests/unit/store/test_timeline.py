"""A run on one time axis: series, the training's measurements and marks together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from railbed.cli.verbs.diagnose.show import step_text
from railbed.diagnose.book import DIAGNOSE_BOOK
from railbed.diagnose.shared.steps import parts_of
from railbed.errors import UsageError
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import Sample, SeriesKey
from railbed.model.record import WRONG, Finding, Measurement, Verdict
from railbed.rules.engine import judge
from railbed.rules.site import Site
from railbed.store import OpenRun, open_run
from railbed.store.series import SeriesWriter
from railbed.store.timeline import Mark, StepAt, Timeline
from railbed.store.timeline.samples import SampledMeasurements
from railbed.store.writing import note_in_runs

RX = SeriesKey("node1", "net_rx_bytes", "eth1")
MEMORY = SeriesKey("node1", "memory_used_bytes")
PAUSE = SeriesKey("node1", "pause_rx_us", "eth1", "3")
LAYOUT = (RX, MEMORY, PAUSE)
START = 1_800_000_000.0


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OpenRun]:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))
    with open_run("train", cluster_name="lab", cluster_text="name: lab\n") as run:
        yield run


def sample(second: float, rx: int, memory: int = 5, pause: int = 0) -> Sample:
    return Sample("node1", START + second, LAYOUT, [rx, memory, pause])


def measurement(name: str, value: float, step: int, second: float, rank: int = 0) -> Measurement:
    labels: dict[str, str | int] = {"step": step, "rank": rank, "node": "node1"}
    return Measurement(name=name, value=value, unit="s", labels=labels, time=START + second)


def test_counters_are_rates_and_gauges_have_gaps(run: OpenRun) -> None:
    with SeriesWriter(run.folder) as writer:
        for second in (0, 1, 2, 10, 11):
            writer.append(sample(second, 100 * second))
    timeline = Timeline(run.folder)
    track = timeline.track(RX)
    assert track.unit == "byte/s"
    assert (track.times - START).tolist() == [0, 1, 2, 10, 11]
    np.testing.assert_array_equal(track.values, [np.nan, 100, 100, np.nan, 100])
    track = timeline.track(MEMORY)
    assert track.unit == "byte"
    assert (track.times - START).tolist() == [0, 1, 2, 3, 10, 11]
    np.testing.assert_array_equal(track.values, [5, 5, 5, np.nan, 5, 5])
    assert timeline.track(RX, START + 2, START + 2).values.tolist() == [100]


def test_what_the_training_measures_is_a_series(run: OpenRun) -> None:
    timeline = Timeline(run.folder)
    assert timeline.series() == []
    assert timeline.live
    for step in range(1, 5):
        run.append(measurement("step_seconds", step / 10, step, step))
        run.append(measurement("bytes_sent", 7, step, step))
        run.append(measurement("loss", float("nan"), step, step))
    run.append(events.GenerationFailed(subject="node1", message="node1 is gone", time=START + 2.5))
    assert timeline.refresh()
    assert not timeline.refresh()
    step_seconds = SeriesKey("node1", "step_seconds", part="0")
    assert list(timeline.series()) == [step_seconds, SeriesKey("node1", "loss", part="0")]
    track = timeline.track(step_seconds)
    np.testing.assert_allclose(track.values, [0.1, 0.2, np.nan, 0.3, 0.4])
    assert timeline.step_at(START + 2.6) == StepAt(3)
    assert timeline.step_at(START + 2.2) == StepAt(2, is_over=True)
    assert timeline.step_at(START + 20) == StepAt(4, is_over=True)
    run.finish("done", 0)
    assert timeline.refresh()
    assert timeline.summary.status == "done"
    assert timeline.end == START + 4


def test_steps_do_not_go_backwards_after_a_restart(run: OpenRun) -> None:
    """Step 41 never ends; training continues from the state of step 30."""
    assert Timeline(run.folder).step_at(START) is None
    run.append(events.GenerationStarted(nodes=("node1",), time=START))
    for step in (39, 40):
        for rank in range(2):
            run.append(measurement("step_seconds", 1.0, step, step + rank / 10, rank))
    run.append(events.GenerationFailed(subject="node1", message="node1 is gone", time=START + 45))
    run.append(events.GenerationStarted(nodes=("node1",), time=START + 46))
    for step in range(31, 43):
        run.append(measurement("step_seconds", 1.0, step, step + 20))
    timeline = Timeline(run.folder)
    shown = {second: timeline.step_at(START + second) for second in (1, 39.5, 40.05, 44, 45.5, 47, 60, 60.5, 70)}
    assert shown == {
        1: StepAt(39),
        39.5: StepAt(40),
        40.05: StepAt(40),
        44: StepAt(40, is_over=True),
        45.5: StepAt(40, is_over=True),
        47: StepAt(31, is_repeated=True),
        60: StepAt(40, is_repeated=True),
        60.5: StepAt(41),
        70: StepAt(42, is_over=True),
    }
    assert [step_text(shown[second]) for second in (39.5, 44, 47)] == [
        ", step 40",
        ", after step 40",
        ", step 31 again",
    ]


def test_between_two_starts_the_run_was_stopped(run: OpenRun) -> None:
    with SeriesWriter(run.folder) as writer:
        for start in (0, 400):
            run.append(events.TrainingStarted(subject="a", run="a", recipe={}, time=START + start))
            for second in range(start, start + 60):
                writer.append(sample(second, 0))
    run.finish("stopped", 130)
    timeline = Timeline(run.folder)
    assert timeline.starts() == [timeline.start, START + 400]
    nodes = {"node1": {"host": "a"}, "node2": {"host": "b"}}
    site = Site(Cluster.model_validate({"name": "lab", "nodes": nodes}), timeline=timeline)
    assert parts_of(site) == [(timeline.start, START + 59), (START + 400, START + 459)]
    wrong = [finding for finding in judge(DIAGNOSE_BOOK, site) if finding.verdict in WRONG]
    assert wrong == []


def test_a_long_step_is_not_a_gap(run: OpenRun) -> None:
    for step, second in enumerate((1, 2, 3, 4, 14, 15)):
        run.append(measurement("step_seconds", 1.0, step, second))
    assert not np.isnan(Timeline(run.folder).track(SeriesKey("node1", "step_seconds", part="0")).values).any()


def test_events_are_marks(run: OpenRun) -> None:
    run.append(events.GenerationStarted(nodes=("node1", "node2"), time=START))
    for node in ("node1", "node2"):
        run.append(events.CheckpointSaved(subject=node, step=50, time=START + 1))
    run.append(events.NodeLost(subject="node2", message="node2 does not answer", time=START + 2))
    run.append(events.GenerationFailed(subject="node2", message="node2 is gone", time=START + 3))
    run.append(events.LabFaultSet(subject="node1", message="node1 is slow", fault="slow", time=START + 0.5))
    run.append(events.LogLine(message="hello", time=START + 4))
    run.append(events.ErrorReported(message="it ended", time=START + 5))
    marks = Timeline(run.folder).marks()
    assert [(mark.time - START, mark.kind, mark.subject) for mark in marks] == [
        (0, "notice", ""),
        (0.5, "fault", "node1"),
        (1, "checkpoint", ""),
        (2, "lost", "node2"),
        (3, "restart", "node2"),
        (5, "error", ""),
    ]
    assert marks[2].text == "checkpoint of step 50"


def test_long_pauses_are_marked_where_they_begin(run: OpenRun) -> None:
    paused = 0
    with SeriesWriter(run.folder) as writer:
        for second in range(300):
            paused += 400_000 if 130 <= second < 140 or 142 <= second < 145 or second == 250 else 50_000
            writer.append(sample(second, 0, pause=paused))
    marks = Timeline(run.folder).marks()
    assert [(mark.time - START, mark.kind, mark.subject) for mark in marks] == [
        (130, "pause", "node1"),
        (250, "pause", "node1"),
    ]
    assert marks[0].text == "eth1 priority 3 was paused by its neighbour: up to 40 % of the time for 14 s"


def test_pauses_of_several_ports_are_one_mark(run: OpenRun) -> None:
    layout = tuple(SeriesKey("node1", "pause_rx_us", port, "3") for port in ("eth1", "eth2"))
    totals = [0, 0]
    with SeriesWriter(run.folder) as writer:
        for second in range(60):
            totals = [totals[0] + 200_000 * (second >= 20), totals[1] + 900_000 * (second >= 22)]
            writer.append(Sample("node1", START + second, layout, totals))
    (mark,) = Timeline(run.folder).marks()
    assert mark.time == START + 20
    assert mark.text == "eth2 priority 3 (and 1 more) was paused by its neighbour: up to 90 % of the time for 39 s"


def test_pauses_are_the_same_for_a_timeline_that_follows_the_run(run: OpenRun) -> None:
    layout, paused = (PAUSE,), 0
    followed = Timeline(run.folder)
    with SeriesWriter(run.folder) as writer:
        for second in range(400):
            paused += 300_000 if 100 <= second < 280 or 350 <= second % 1000 < 352 else 10
            writer.append(Sample("node1", START + second, layout, [paused]))
            if second % 3 == 0:
                followed.refresh()
                followed.marks()
    run.finish("done", 0)
    followed.refresh()
    assert [mark.time - START for mark in followed.marks()] == [100, 350]
    assert followed.marks() == Timeline(run.folder).marks()


def test_pauses_of_a_switch_that_is_sampled_slowly_are_one_mark(run: OpenRun) -> None:
    layout = (SeriesKey("nexus", "switch_pause_tx_frames", "Ethernet1/1"),)
    with SeriesWriter(run.folder) as writer:
        for number in range(40):
            writer.append(Sample("nexus", START + 5.1 * number, layout, [max(0, number - 10) * 50_000]))
    (mark,) = Timeline(run.folder).marks()
    assert mark.time == START + 5.1 * 11
    assert "sent pause frames" in mark.text


def test_a_fault_in_the_lab_is_noted_in_the_run_in_progress(run: OpenRun) -> None:
    timeline = Timeline(run.folder)
    fault = events.LabFaultSet(subject="node1", message="slow 100M", fault="slow", time=START)
    note_in_runs("another", [fault])
    assert not timeline.refresh()
    note_in_runs("lab", [fault])
    assert timeline.refresh()
    assert timeline.marks() == [Mark(START, "fault", "node1", "slow 100M")]
    assert (run.folder / "notes.jsonl").stat().st_mode & 0o777 == 0o600
    run.finish("done", 0)


def test_findings(run: OpenRun) -> None:
    finding = Finding(check="mtu", subject="a", verdict=Verdict.FAIL, expected="9000", observed="1500", why="…")
    run.append(finding)
    assert Timeline(run.folder).findings() == [finding]


def test_fewer_points_keep_the_extremes(run: OpenRun) -> None:
    with SeriesWriter(run.folder) as writer:
        for second in range(3600):
            if not 2000 <= second < 2100:
                writer.append(sample(second, 0, memory=10**9 if second == 1234 else 5 if second == 7 else 100))
    timeline = Timeline(run.folder)
    drawn = timeline.draw(MEMORY, START, START + 3600, 200)
    assert len(drawn.times) <= 200
    assert np.nanmax(drawn.high) == 10**9
    assert np.nanmin(drawn.low) == 5
    highest = drawn.times[np.nanargmax(drawn.high)] - START
    assert abs(highest - 1234) <= 18
    gap = np.isnan(drawn.high)
    assert gap.any()
    assert ((drawn.times[gap] - START > 1990) & (drawn.times[gap] - START < 2110)).all()
    few = timeline.draw(MEMORY, START, START + 100, 200)
    assert len(few.times) == 101
    assert (few.low == few.high).all()


def test_long_spans_are_drawn_from_rollups(run: OpenRun) -> None:
    with SeriesWriter(run.folder) as writer:
        for minute in range(0, 3 * 24 * 60, 5):
            writer.append(sample(60 * minute, 0, memory=10**9 if minute == 1000 else 100))
    drawn = Timeline(run.folder).draw(MEMORY, START, START + 3 * 86400, 100)
    assert len(drawn.times) <= 100
    assert drawn.high.max() == 10**9
    assert abs(drawn.times[np.argmax(drawn.high)] - START - 60_000) <= 3600


def test_samples_are_printed_on_after_the_clock_was_set_back(run: OpenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = time.time()
    timeline = Timeline(run.folder)
    printed = SampledMeasurements(timeline, 1.0)
    for clock, memory in ((0.0, 5), (-3600.0, 777)):
        with SeriesWriter(run.folder) as writer:
            for second in range(10):
                writer.append(Sample("node1", begin + clock + second, (MEMORY,), [memory]))
        values = set()
        for later in (0.0, 20.0):
            monkeypatch.setattr(time, "time", lambda now=begin + clock + later: now)
            timeline.refresh()
            values |= {record.value for record in printed.complete()}
        assert values == {memory}


def test_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        Timeline(tmp_path)
