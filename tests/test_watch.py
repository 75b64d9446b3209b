"""`railbed watch`: runs in the terminal, in a pipe and as records; the cluster itself; wrong arguments."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest

from railbed.cli.console import SafeConsole
from railbed.cli.screens.watch import amount, duration, node_table, seconds, share, sparkline, view
from railbed.cli.screens.watch_rows import natural, node_rows, queue_rows
from railbed.cli.verbs.watch.view import while_shown
from railbed.model.events import Notice
from railbed.model.meters import METERS, RECORDED, SeriesKey
from railbed.model.record import Record
from railbed.store.series import SeriesReader
from railbed.store.timeline import Timeline
from railbed.store.timeline.samples import SampledMeasurements
from tests.support.cli import RAILBED, environment, railbed, start
from tests.support.disks import small_disk
from tests.support.runs import plain_run
from tests.support.terminal import Terminal
from tests.support.watched import Generated, generated_run, write_generated
from tests.test_cli import assert_one_sentence

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


@pytest.fixture(autouse=True)
def runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path / "runs"))


def test_every_meter_has_a_measurement() -> None:
    for name, meter in METERS.items():
        measured = RECORDED[name if meter.kind == "gauge" else f"{name}_rate"]
        assert measured is meter
        if meter.of != "rank":
            assert meter.labels == ("device", "port", "part", "stat")
            assert meter.recorded_unit == meter.unit + ("/s" if meter.kind == "counter" else "")


def test_rows_of_nodes_and_queues() -> None:
    timeline = Timeline(write_generated(Generated(nodes=4, seconds=100)))
    rows = node_rows(timeline)
    assert [row.node for row in rows] == ["node1", "node2", "node3", "node4"]
    first = rows[0]
    assert first.sent == pytest.approx(15e9, rel=0.1)
    assert first.pause == pytest.approx(0.0125, rel=0.3)
    assert first.cpu == pytest.approx(6.0, rel=0.1)
    assert first.gpu == pytest.approx(0.92, abs=0.03)
    assert first.faulty == 0
    assert rows[2].pause == 0
    assert first.step_seconds == pytest.approx(0.46, abs=0.03)
    assert len(first.trend) == 12
    queues = queue_rows(timeline)
    assert {(row.switch, row.port, row.queue) for row in queues[:2]} == {
        ("leaf1", "Ethernet1/5", "3"),
        ("leaf1", "Ethernet1/6", "3"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (amount(None), "–"),
        (amount(0.0), "0"),
        (amount(1.25e9, 8), "10.0G"),
        (amount(999.9), "1.00k"),
        (amount(0.123), "0.12"),
        (seconds(0.0382), "38 ms"),
        (seconds(1.239), "1.24 s"),
        (seconds(0.0021), "2.1 ms"),
        (seconds(0.0), "0 ms"),
        (share(0.031), "3.1 %"),
        (share(0.0), "0 %"),
        (duration(59.6), "1 min 0 s"),
        (duration(7500), "2 h 5 min"),
        (sparkline([0, 1, float("nan"), 2]), "▁▅ █"),
        (sparkline([0, 0]), "▁▁"),
        (sparkline([]), ""),
    ],
)
def test_values_are_short(text: str, expected: str) -> None:
    assert text == expected


def test_nodes_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["node10", "node9", "a", "node1b"], key=natural) == ["a", "node1b", "node9", "node10"]


@pytest.mark.whole
def test_a_finished_run_in_a_pipe_is_plain_text_of_80_columns(tmp_path: Path) -> None:
    folder = write_generated(Generated(nodes=12, seconds=60))
    result = railbed(tmp_path, "watch", folder.name)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{folder.name} · generated · done · 1 min")
    assert lines[1].split()[:3] == ["node", "step", "wait"]
    assert lines[13].startswith("node12")
    assert max(map(len, lines)) <= 80
    assert CONTROL.search(result.out) is None
    assert "…" not in "".join(lines[:14])
    assert any("restart node1" in line for line in lines)


@pytest.mark.whole
def test_records_and_samples_as_json(tmp_path: Path) -> None:
    folder = write_generated(Generated(nodes=2, seconds=60))
    records = railbed(tmp_path, "watch", folder.name, "--json", "--interval", "10").records
    assert {record["kind"] for record in records} == {"event", "measurement"}
    sent = [
        record
        for record in records
        if record["name"] == "rdma_tx_bytes_rate"
        and record["labels"] == {"device": "node1", "port": "rail0", "stat": "mean"}
    ]
    assert 5 <= len(sent) <= 8
    assert all(record["unit"] == "byte/s" and 2e9 < record["value"] < 1e10 for record in sent)
    assert [record["time"] for record in sent] == sorted(record["time"] for record in sent)
    assert any(record["name"] == "loss" for record in records)
    highest = [record for record in records if record["name"] == "gpu_power" and record["labels"]["stat"] == "max"]
    assert highest


def test_samples_of_a_run_in_progress_are_complete_intervals() -> None:
    with generated_run(Generated(nodes=2, seconds=30)) as (run, write):
        for index in range(20):
            write(index)
        samples = SampledMeasurements(Timeline(run.folder), 5.0)
        first = list(samples.complete())
        assert first
        assert list(samples.complete()) == []


@pytest.mark.whole
def test_wrong_runs_get_a_sentence(tmp_path: Path) -> None:
    assert_one_sentence(railbed(tmp_path, "watch", "nope"), 2, "there is no run 'nope'")
    empty = plain_run([], verb="check")
    assert_one_sentence(railbed(tmp_path, "watch", empty.name), 2, "no samples and no training steps")
    folder = write_generated(Generated(nodes=2, seconds=5))
    assert_one_sentence(railbed(tmp_path, "watch", folder.name, "--exporter"), 2, "cannot be combined")
    assert_one_sentence(railbed(tmp_path, "watch", folder.name, "--port", "80"), 2, "--port needs --page or --exporter")
    assert_one_sentence(
        railbed(tmp_path, "watch", folder.name, "--page", "--address", "192.0.2.1"), 2, "not an address of this"
    )
    assert_one_sentence(railbed(tmp_path, "watch", "--interval", "0.01"), 2, "greater than or equal to 0.1")


@pytest.mark.whole
def test_an_address_that_cannot_be_served_leaves_no_run(tmp_path: Path) -> None:
    assert_one_sentence(
        railbed(tmp_path, "watch", "--page", "--address", "192.0.2.1"), 2, "not an address of this machine"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_one_sentence(railbed(tmp_path, "watch", "--page", "--port", port), 2, "the port is in use")
    assert not (tmp_path / "runs").exists()


@pytest.mark.whole
def test_a_run_that_cannot_be_written_is_shown(tmp_path: Path) -> None:
    """An archive on a read-only disk; watching stores nothing in a run."""
    with small_disk(tmp_path / "archive") as disk:
        folder = write_generated(Generated(nodes=2, seconds=30))
        archived = Path(shutil.copytree(folder, disk / folder.name))
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for verb, code in (("watch", 0), ("diagnose", 1)):
            result = railbed(tmp_path, verb, archived)
            assert (result.code, result.err) == (code, ""), result
        page = start(tmp_path, "watch", str(archived), "--page")
        assert page.stderr is not None
        assert f"the page of {folder.name}: " in page.stderr.readline().decode()
        page.send_signal(signal.SIGINT)
        assert page.communicate(timeout=60)[1] == b""


@pytest.mark.whole
def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    folder = write_generated(Generated(nodes=3, seconds=60))
    command = f"{RAILBED} watch {folder.name} --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (141, b"")
    assert json.loads(done.stdout)["kind"]


async def test_sampling_ends_when_nothing_reads_its_output_any_more() -> None:
    async def endless() -> AsyncGenerator[Record, None]:
        yield Notice(message="begun")
        await asyncio.Event().wait()

    async def fail() -> None:
        await closed.wait()
        raise BrokenPipeError

    closed = asyncio.Event()
    shown = while_shown(endless(), asyncio.create_task(fail()))
    assert isinstance(await anext(shown), Notice)
    closed.set()
    with pytest.raises(BrokenPipeError):
        await anext(shown)


@pytest.mark.whole
def test_a_live_run_in_a_terminal_until_ctrl_c(tmp_path: Path) -> None:
    with generated_run(Generated(nodes=2, seconds=100)) as (run, write):
        for index in range(99):
            write(index)
        with Terminal([RAILBED, "watch"], tmp_path, environment()) as terminal:
            assert f"{run.folder.name} · generated · " in terminal.read("node2")
            terminal.process.send_signal(signal.SIGINT)
            assert "is still running" in terminal.read()
            assert terminal.process.wait(60) == 130


@pytest.mark.whole
def test_the_page_is_served_until_ctrl_c(tmp_path: Path) -> None:
    folder = write_generated(Generated(nodes=2, seconds=10))
    process = start(tmp_path, "watch", folder.name, "--page")
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    assert re.fullmatch(rf"the page of {folder.name}: http://127\.0\.0\.1:\d+/\n", line)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.whole
def test_this_machine_is_sampled_into_a_run(tmp_path: Path) -> None:
    """As often as possible, every 100 ms."""
    result = railbed(tmp_path, "watch", "--for", "3", "--interval", "0.1", "--json")
    assert result.code == 0, result.err
    records = result.records
    assert [record["data"]["interval"] for record in records if record["name"] == "sampling"] == [0.1]
    assert any(record["name"] == "cpu_busy_us_rate" for record in records)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-watch")
    stored = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert {record["kind"] for record in stored} == {"event"}
    times = SeriesReader(folder).samples(SeriesKey("local", "cpu_busy_us")).times
    assert len(times) > 3
    assert (np.diff(times) > 0).all()
    again = railbed(tmp_path, "watch", folder.name)
    assert (again.code, again.out.splitlines()[2].split()[0]) == (0, "local")


def test_columns_that_do_not_fit_are_left_out() -> None:
    timeline = Timeline(write_generated(Generated(nodes=2, seconds=20)))
    for width, last in ((80, "trend"), (40, "err/s"), (20, "pause")):
        console = SafeConsole(record=True, width=width)
        console.print(node_table(node_rows(timeline), width))
        lines = console.export_text().splitlines()
        assert lines[0].split()[-1] == last
        assert "…" not in "".join(lines)


def test_the_view_of_a_run_without_samples_says_so() -> None:
    console = SafeConsole(record=True, width=80)
    console.print(view(Timeline(plain_run([], verb="check")), 80))
    assert "this run has no samples" in console.export_text()
