"""Logs for TensorBoard, read back with TensorBoard's own reader."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from tests.support.events import event

from railbed.model.record import Measurement, Record
from railbed.store.tensorboard import TensorBoardLogs, _scalars


def measured(name: str, step: int, value: float, rank: int = 0) -> Measurement:
    return Measurement(
        name=name, value=value, unit="s", labels={"step": step, "rank": rank, "node": "a"}, time=1e9 + step
    )


def written(run: Path, records: Sequence[Record]) -> TensorBoardLogs:
    logs = TensorBoardLogs(run)
    for record in records:
        logs.take(record)
    logs.close()
    return logs


def curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Return what TensorBoard shows: the points of each tag."""
    reader = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(point.step, point.value) for point in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def test_a_tag_is_a_measure_and_has_the_times_of_the_records(tmp_path: Path) -> None:
    records: list[Record] = [event(name="generation")]
    for step in (1, 2):
        records += [measured("loss", step, 4.0 / step), measured("mfu", step, 0.5)]
        records += [measured("bytes_sent", step, 1000.0 * step, rank) for rank in (0, 1)]
    records += [event(name="checkpoint", data={"step": 2}), Measurement(name="loss", value=1.0, unit="nat")]
    assert written(tmp_path, records).problem == ""
    assert curves(tmp_path) == {
        "loss": [(1, 4.0), (2, 2.0)],
        "mfu/rank0": [(1, 0.5), (2, 0.5)],
        "bytes_sent/rank0": [(1, 1000.0), (2, 2000.0)],
        "bytes_sent/rank1": [(1, 1000.0), (2, 2000.0)],
    }
    reader = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [point.wall_time for point in reader.Scalars("loss")] == [1e9 + 1, 1e9 + 2]


def test_what_a_restart_threw_away_leaves_the_curves(tmp_path: Path) -> None:
    """Also of a rank that did not come back, and within the same second."""
    records: list[Record] = [event(name="generation")]
    records += [measured("loss", step, 9.0) for step in range(1, 11)]
    records += [measured("idle_seconds", step, 0.5, rank=1) for step in range(1, 11)]
    records += [event(name="restart"), event(name="generation")]
    records += [measured("loss", step, 1.0) for step in range(6, 9)]
    written(tmp_path, records)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
    assert curves(tmp_path) == {
        "loss": [*((step, 9.0) for step in range(1, 6)), *((step, 1.0) for step in range(6, 9))],
        "idle_seconds/rank1": [(step, 0.5) for step in range(1, 6)],
    }


def test_points_can_be_seen_while_the_run_goes_on(tmp_path: Path) -> None:
    logs = TensorBoardLogs(tmp_path)
    logs.take(measured("loss", 1, 4.0))
    assert curves(tmp_path) == {"loss": [(1, 4.0)]}
    logs.close()


def test_a_run_without_steps_leaves_no_folder(tmp_path: Path) -> None:
    written(tmp_path, [event(name="generation"), event(name="error")])
    assert not (tmp_path / "tensorboard").exists()


def test_a_log_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("in the way")
    logs = written(tmp_path, [measured("loss", 1, 4.0), measured("loss", 2, 4.0)])
    assert logs.problem == "logging for TensorBoard stopped: File exists"


def test_a_full_disk_ends_the_logs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("wb")  # noqa: SIM115  (closed by the logs)
    monkeypatch.setattr(TensorBoardLogs, "_begin_file", lambda *_: full)
    logs = written(tmp_path, [measured("loss", 1, 4.0), measured("loss", 2, 4.0)])
    assert logs.problem == "logging for TensorBoard stopped: the disk is full"


@given(
    st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), st.floats()), max_size=5),
    st.integers(0, 2**63 - 1),
    st.floats(1.0, 2e9),
)
@example([("loss", 1e39), ("loss", -1e39), ("loss", math.nan), ("loss", -0.0), ("mfu", 0.0)], 2**40, 1e9)
def test_bytes_are_those_of_the_library(values: list[tuple[str, float]], step: int, at: float) -> None:
    points = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values]
    theirs = event_pb2.Event(wall_time=at, step=step, summary=summary_pb2.Summary(value=points))
    frame = io.BytesIO()
    RecordWriter(frame).write(theirs.SerializeToString())
    assert _scalars(values, step, at) == frame.getvalue()
