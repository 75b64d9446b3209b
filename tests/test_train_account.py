"""What a training run reports about itself: before the launch, and afterwards in its files; with real ranks."""

from __future__ import annotations

import json
import re
import signal
import stat
import sys
import venv
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.cli import railbed, start
from tests.support.smallrun import write_small_run
from tests.support.sshd import running_servers

pytestmark = pytest.mark.whole

GROUP = pytest.mark.xdist_group("train")


@pytest.fixture
def cold_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> Path:
    """A folder with a recipe and a cluster; all that railbed writes stays below it. No rank is launched from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_small_run(tmp_path, python=Path(sys.executable), port=unused_tcp_port, evaluate_every=6)


@pytest.fixture
def folder(cold_folder: Path, warm_python_here: Path) -> Path:
    """The same, for ranks: their Python has torch loaded."""
    cluster = cold_folder / "cluster.yaml"
    cluster.write_text(cluster.read_text().replace(sys.executable, str(warm_python_here)))
    return cold_folder


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").glob("*-train")
    return run


def records_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]


def steps_of(run: Path) -> dict[str, dict[int, dict[int, float]]]:
    """Return the measurements by name, step and rank."""
    values: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records_of(run):
        if record["kind"] == "measurement" and "step" in record["labels"]:
            values[record["name"]][record["labels"]["step"]][record["labels"]["rank"]] = record["value"]
    return values


@GROUP
def test_metrics_and_curves_are_what_the_records_say(folder: Path) -> None:
    done = railbed(folder, "train", "small.yaml", "--ranks", "2")
    assert done.code == 0, done.err
    assert re.search(r"2 ranks will take about \d{3} MB of", done.err)
    run = only_run(folder)
    steps = steps_of(run)
    metrics = json.loads((run / "training_metrics.json").read_text())
    assert (metrics["status"], metrics["nodes"], metrics["steps_in_history"]) == ("done", ["here"], 12)
    assert metrics["total_tokens"] == 12 * 8 * 32
    for row in metrics["steps"]:
        assert row["loss"] == steps["loss"][row["step"]][0]
        assert row["mfu"] == pytest.approx(fmean(steps["mfu"][row["step"]].values()))
        assert {int(rank): value for rank, value in row["idle_seconds"].items()} == steps["idle_seconds"][row["step"]]
        assert min(row["idle_seconds"].values()) == 0
    assert [row["step"] for row in metrics["steps"] if row["validation_loss"]] == [6, 12]
    (memory,) = metrics["memory"]
    assert 0.3 < memory["peak_memory_bytes"] / memory["estimated_rank_bytes"] < 1.5
    reader = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    curves = {tag: {point.step: point.value for point in reader.Scalars(tag)} for tag in reader.Tags()["scalars"]}
    assert curves["loss"] == pytest.approx({step: by[0] for step, by in steps["loss"].items()})
    for name in ("bytes_sent", "idle_seconds", "forward_seconds", "mfu"):
        for rank in (0, 1):
            assert curves[f"{name}/rank{rank}"] == pytest.approx({step: by[rank] for step, by in steps[name].items()})
    page = railbed(folder, "report", "--json")
    assert {"ranks", "memory"} <= set(page.records[0]["data"]["sections"])


@GROUP
def test_an_interrupted_run_has_its_metrics(folder: Path) -> None:
    process = start(folder, "train", "small.yaml", "--ranks", "1", "--set", "steps=100000", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("labels", {}).get("step", 0) >= 3:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    run = only_run(folder)
    metrics = json.loads((run / "training_metrics.json").read_text())
    assert (metrics["status"], metrics["exit"]) == ("stopped", 130)
    assert [row["step"] for row in metrics["steps"]] == sorted(steps_of(run)["loss"])
    assert list((run / "tensorboard").iterdir())


def test_a_model_too_big_for_the_memory_is_refused_before_the_launch(cold_folder: Path) -> None:
    folder = cold_folder
    done = railbed(folder, "train", "small.yaml", "--set", "model.width=65536", "--set", "model.layers=96")
    assert done.code == 2
    sentence, hint, saved, again = done.err.splitlines()
    assert saved.startswith("  saved in runs/")
    assert again.startswith("  start again: railbed train small.yaml --set model.width=65536")
    assert sentence.startswith("railbed: the model is too big for here: its 2 ranks need about ")
    assert "GB are free (4,947,906,002,944 parameters: " in sentence
    assert "a smaller model (model.width, model.layers, model.context)" in hint
    assert not (folder / "work").exists()
    assert json.loads((only_run(folder) / "training_metrics.json").read_text())["status"] == "failed"


def script(path: Path, command: str) -> str:
    """Write a program, and return its path."""
    path.write_text(f'#!/bin/sh\n{command} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.ssh
def test_a_node_that_cannot_train_as_it_is_is_named_with_the_reason(cold_folder: Path, tmp_path_factory: Any) -> None:
    """Versions that differ are a matter of the files (2); a tool that is not there is a matter of the device (3)."""
    folder = cold_folder
    (folder / "other" / "torch").mkdir(parents=True)
    (folder / "other" / "torch" / "version.py").write_text("__version__ = '2.1.7+cpu'\n")
    minor = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    other = script(folder / "python-of-n2", f"PYTHONPATH={folder / 'other'} exec {sys.executable}")
    bare = script(folder / "python-without-torch", f"exec {sys.executable} -S -E")
    with running_servers(2, tmp_path_factory.mktemp("ssh")) as servers:
        for python, code, sentence in (
            (other, 2, f"n2: {minor}, torch 2.1.7, CPU, expected {minor}, torch "),
            (bare, 3, f"railbed: not every node can train: n2: {minor}."),
            ("/nowhere/python3", 3, "railbed: not every node can train: n2: no Python at /nowhere/python3"),
        ):
            text = servers.cluster_yaml()
            for name, path in (("n1", sys.executable), ("n2", python)):
                text = text.replace(f"  {name}: {{", f"  {name}: {{python: {path}, ")
            (folder / "cluster.yaml").write_text(f"{text}training: {{workdir: {folder / 'work'}}}\n")
            done = railbed(folder, "train", "small.yaml")
            assert (done.code, sentence in done.err) == (code, True), done
            assert not (folder / "work").exists()


@GROUP
def test_one_node_without_torch_is_a_missing_tool(folder: Path, warm_python_here: Path) -> None:
    """With only one node, nothing is checked before the launch; the ranks report it themselves."""
    venv.create(folder / "bare", symlinks=True)
    text = (folder / "cluster.yaml").read_text().replace(str(warm_python_here), str(folder / "bare" / "bin" / "python"))
    (folder / "cluster.yaml").write_text(text)
    done = railbed(folder, "train", "small.yaml", "--ranks", "1")
    assert done.code == 3
    assert "torch is not installed for " in done.err
