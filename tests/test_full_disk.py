"""Disks that are really full: the user is shown that cause, and nothing half-written is used afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from railbed.errors import DataError, UsageError
from railbed.lab.host import HostFault
from railbed.lab.vm import cache
from railbed.launch.messages import encode
from railbed.model.events import Notice
from railbed.model.meters import Sample, SeriesKey
from railbed.model.reading import Output
from railbed.store import list_runs, open_run, read_records
from railbed.store.series import SeriesReader, SeriesWriter
from railbed.store.writing import RESERVE
from railbed.train import recipes
from railbed.train.data.prepare import prepare
from railbed.train.models.gpt import GptSettings
from railbed.train.state.checkpoints import publish, survey, write_synced
from railbed.train.worker.io.export import export
from railbed.train.worker.models.base import BuildOptions
from railbed.train.worker.models.gpt import Gpt
from railbed.transport.record import OutputRecorder
from tests.support.background import Background
from tests.support.cli import environment, railbed
from tests.support.disks import fill, small_disk
from tests.support.smallmodel import write_tokens
from tests.support.smallrun import write_small_run


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def test_a_run_is_not_begun(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(disk / "runs"))
    fill(disk, leave=900_000)
    with (
        pytest.raises(UsageError, match=r"^cannot store the run in .*: the disk is full$"),
        open_run("check", cluster_name="lab", cluster_text=""),
    ):
        pass
    assert list((disk / "runs").iterdir()) == []


def test_a_run_says_where_it_ends(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(disk / "runs"))
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        run.append(Notice(message="before"))
        fill(disk)
        with pytest.raises(UsageError, match=r"the disk is full$"):
            run.append(Notice(message="x" * 100_000))
        run.append(Notice(message="after"))
        assert os.statvfs(disk).f_bavail == 0
        run.finish("failed", 2)
    (summary,) = list_runs()
    assert (summary.status, summary.exit, summary.unstored) == ("failed", 2, "the disk is full")
    assert summary.ended
    assert [notice.message for notice in read_records(run.folder, Notice) if isinstance(notice, Notice)] == ["before"]


def test_a_run_that_ends_as_usual_leaves_no_reserve(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(disk / "runs"))
    with open_run("check", cluster_name="lab", cluster_text="") as run:
        assert (run.folder / RESERVE).stat().st_size > (run.folder / "run.json").stat().st_size
        run.finish("done", 0)
    assert not (run.folder / RESERVE).exists()
    (summary,) = list_runs()
    assert (summary.status, summary.unstored) == ("done", "")


def test_samples_stop_and_go_on_when_there_is_space_again(disk: Path) -> None:
    layout = tuple(SeriesKey("a", "net_rx_bytes", f"eth{number}") for number in range(300))
    stored, refused = [], set()
    with SeriesWriter(disk) as writer:
        for second in range(200):
            if second == 80:
                fill(disk)
            if second == 130:
                (disk / "filling").unlink()
            try:
                writer.append(Sample("a", 6000.0 + second, layout, [second] * 300))
            except UsageError as error:
                refused.add(error.message)
            else:
                stored.append(second)
            if second in (129, 199):
                assert SeriesReader(disk).samples(layout[7]).values.tolist() == stored
    assert SeriesReader(disk).samples(layout[7]).values.tolist() == stored
    assert 100 < len(stored) < 200
    assert refused == {f"cannot store the samples in {disk / 'series'}: the disk is full"}


def test_a_recording_says_so(disk: Path) -> None:
    fill(disk)
    output = Output(device="a", key="k", command="c", stdout=b"x" * 10_000, stderr=b"", exit=0, sent=0.0, received=0.0)
    with OutputRecorder(disk / "recording") as recorder, pytest.raises(UsageError, match=r"the disk is full$"):
        recorder.store(output)


def test_tokens_are_made_whole_or_not_at_all(disk: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{n} green bottles hang on wall {n * n % 97}\n" for n in range(9000)))
    recipe = recipes.load("tiny", [f"data.files=[{tmp_path / 'text.txt'}]", "model.vocabulary=300"])
    filling = fill(disk, leave=60_000)
    with pytest.raises(DataError, match=r"^the tokens cannot be written to .*: the disk is full$"):
        prepare(recipe, disk / "cache")
    assert list((disk / "cache").iterdir()) == []
    filling.unlink()
    prepared = prepare(recipe, disk / "cache")
    for name in ("tokens.bin", "tokenizer.json"):
        path = prepared.folder / name
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))  # as a crash leaves it
        assert (prepare(recipe, disk / "cache").folder / name).read_bytes() == content


def test_a_checkpoint_that_does_not_fit_leaves_the_one_before(disk: Path) -> None:
    publish(disk / "checkpoints", 10, lambda beside: {"model": write_synced(beside / "model", b"1" * 1000)})
    fill(disk, leave=2 << 20)
    with pytest.raises(OSError, match="No space left on device"):
        publish(disk / "checkpoints", 20, lambda beside: {"model": write_synced(beside / "model", bytes(3 << 20))})
    assert [state.step for state in survey(disk / "checkpoints").good] == [10]
    assert sorted(path.name for path in (disk / "checkpoints").iterdir()) == ["latest", "step-00000010"]


def test_weights_are_exported_whole_or_not_at_all(disk: Path, tmp_path: Path) -> None:
    model = Gpt.build(
        GptSettings(layers=2, heads=2, width=128, context=16, vocabulary=61), BuildOptions(device=torch.device("cpu"))
    )
    tokens = write_tokens(tmp_path / "tokens")
    export(model, disk / "model", tokens=tokens, end_of_text=0, step=1)
    before = {path.name: path.read_bytes() for path in (disk / "model").iterdir()}
    fill(disk, leave=100_000)
    with pytest.raises(OSError, match="No space left on device"):
        export(model, disk / "model", tokens=tokens, end_of_text=0, step=2)
    assert {path.name: path.read_bytes() for path in (disk / "model").iterdir()} == before
    assert sorted(path.name for path in disk.iterdir()) == ["filling", "model"]


def test_a_lab_image_is_kept_whole_or_not_at_all(disk: Path) -> None:
    fill(disk, leave=2 << 20)
    with (
        pytest.raises(HostFault, match=r"^the image cannot be written: the disk is full"),
        cache.making(disk / "image", ("root.raw",)) as new,
    ):
        (new / "root.raw").write_bytes(bytes(3 << 20))
    assert [path.name for path in disk.iterdir()] == ["filling"]
    assert not cache.is_whole(disk / "image")


def test_an_agent_says_that_the_disk_is_full(disk: Path) -> None:
    """At start-up of a rank: its order cannot be written."""
    agent = [sys.executable, "-m", "railbed.launch.node.agent", str(disk / "run")]
    (disk / "run").mkdir()
    fill(disk)
    rank = {"rank": 3, "command": ["true"], "job": "x" * 100_000}
    request = encode({"do": "start", "generation": 1, "ranks": [rank]})
    with subprocess.Popen(agent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(request)
        process.stdin.flush()
        ended = next(message for line in process.stdout if (message := json.loads(line))["kind"] == "exit")
        process.stdin.close()
        assert process.wait(20) == 0
    assert ended["why"] == f"{disk}/run/rank3.g1.json cannot be written: the disk is full"


@pytest.mark.parametrize("files", [7, 600])
def test_an_agent_that_cannot_start_says_why(tmp_path: Path, files: int) -> None:
    with small_disk(tmp_path / "disk", files=files) as disk:
        for number in range(files):
            try:
                (disk / str(number)).touch()
            except OSError:
                break
        done = subprocess.run(
            [sys.executable, "-m", "railbed.launch.node.agent", str(disk / "run")],
            input=b"",
            capture_output=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == f"{disk}/run: the disk is full"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_python_here: Path, unused_tcp_port: int) -> Path:
    """A folder with a recipe and a cluster, whose work is done in `work`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_small_run(tmp_path, python=warm_python_here, port=unused_tcp_port)


@pytest.mark.whole
@pytest.mark.xdist_group("train")
def test_training_on_a_disk_without_room_ends_before_it_begins(folder: Path) -> None:
    with small_disk(folder / "work", megabytes=5):
        done = railbed(folder, "train", "small.yaml")
        left = [path.name for path in (folder / "work").rglob("*") if path.is_file()]
    assert done.code == 3
    assert "0 of 1 nodes can train, 1 are needed (here: the disk under " in done.err
    assert "is full: 5.2 MB are free, " in done.err
    assert "`railbed runs --clean` removes files of earlier runs" in done.err
    assert left == ["lock"]


@contextmanager
def started(folder: Path, runs: str, *words: str) -> Iterator[Background]:
    with Background([*words, "--json"], cwd=folder, env=environment(RAILBED_RUNS=runs), errors_shown=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: Background, text: bytes) -> None:
    assert any(text in line for line in process.stdout), f"ended before {text!r}"


@pytest.mark.whole
@pytest.mark.xdist_group("train")
def test_a_training_on_a_disk_that_fills_up_failed_and_says_so_everywhere(folder: Path) -> None:
    with small_disk(folder / "disk") as disk:
        runs = str(disk / "runs")
        with started(folder, runs, "train", "small.yaml", "--set", "steps=100000") as process:
            read_until(process, b'"loss"')
            fill(disk)
            assert list(process.stdout)
            assert process.wait(60) == 2
        (about,) = railbed(folder, "runs", "--json", RAILBED_RUNS=runs).records
        listed, verdicts = railbed(folder, "runs", RAILBED_RUNS=runs), railbed(folder, "diagnose", RAILBED_RUNS=runs)
        (disk / "filling").unlink()
        page = railbed(folder, "report", "--format", "md", "--output", str(folder / "page.md"), RAILBED_RUNS=runs)
    assert (about["status"], about["exit"], about["unstored"]) == ("failed", 2, "the disk is full")
    assert f"{about['id']} failed: the disk is full; to continue: railbed train" in listed.out
    assert verdicts.code == 1
    assert "run_unstored" in verdicts.out
    assert "could not be stored here: the disk is full" in " ".join(verdicts.out.split())
    assert page.code == 0
    assert ": the disk is full" in (folder / "page.md").read_text()


@pytest.mark.whole
def test_a_watch_on_a_disk_that_fills_up_goes_on_and_its_end_is_stored(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        runs = str(disk / "runs")
        with started(tmp_path, runs, "watch", "--interval", "0.2") as process:
            read_until(process, b'"cpu_busy_us_rate"')
            fill(disk)
            read_until(process, b'"sampling_gap"')
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        (about,) = railbed(tmp_path, "runs", "--json", RAILBED_RUNS=runs).records
        listed = railbed(tmp_path, "runs", RAILBED_RUNS=runs)
    assert (about["status"], about["exit"]) == ("stopped", 130)
    assert "killed" not in listed.out


@pytest.mark.whole
@pytest.mark.xdist_group("train")
def test_training_goes_on_without_checkpoints_and_says_that_the_disk_is_full(folder: Path) -> None:
    """There is room for what is sent, and then none for what is saved."""
    with small_disk(folder / "work", megabytes=14, files=2000) as disk:
        big = ("--set", "model.width=512", "--set", "batch.sequences=1", "--set", "checkpoint.steps=6")
        done = railbed(folder, "train", "small.yaml", "--json", "--ranks", "1", *big)
        assert not list(disk.rglob("*.new"))
        assert not list((disk / ".railbed" / "runs").rglob("model"))
    (notice,) = [
        record["message"] for record in done.records if record.get("name") == "notice" and record["subject"] == "here"
    ]
    assert re.match(r"its disk has [\d.]+ MB free, and checkpoints take up to \d{3} MB: ", notice)
    failed = [record for record in done.records if record.get("name") == "checkpoint_failed"]
    assert len(failed) == 2  # the first and the last: neither is passed over while another is written
    assert re.search(r"the disk is full \([\d.]+ MB are needed, ", failed[0]["message"])
    assert failed[0]["message"].endswith("training continues, there is no checkpoint yet")
    (finding,) = [finding for finding in done.findings if finding["check"] == "weights_written"]
    assert finding["verdict"] == "fail"
    assert finding["observed"].endswith("/model: the disk is full")
    assert done.code == 1
    page = railbed(folder, "report", "--format", "md")
    assert "the disk is full" in page.out + "".join(path.read_text() for path in folder.rglob("*.md"))
