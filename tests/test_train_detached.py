"""Training without a terminal: it continues, can be followed and stopped, and reports what ended it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from railbed.cli.background import detach as detach_module
from railbed.store.series import SeriesReader
from tests.support.background import Background
from tests.support.cli import RAILBED, Result, environment, railbed
from tests.support.events import event
from tests.support.terminal import Terminal

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("train")]
RECIPE = """
extends: tiny
steps: 100000
model: {layers: 1, heads: 1, width: 16, context: 16, vocabulary: 300}
data: {files: [words.txt], prompt: "the"}
batch: {sequences: 2}
threads: 1
checkpoint: {steps: 50}
evaluation: {every: 0}
"""
SECONDS = 300.0
TOKEN = "0123456789abcdef-of-a-test"  # noqa: S105
TRAIN = ("train", "small.yaml", "-c", "cluster.yaml", "--ranks", "1")
LONG = (*TRAIN, "--set", "batch.sequences=512", "--set", "checkpoint.steps=4")
"""Steps of many sequences: a run that lasts until it is stopped has few records to write and to follow."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, warm_python_here: Path) -> Path:
    """A folder with a small recipe, its text, and this machine as a cluster that works below it."""
    folder = tmp_path_factory.mktemp("detached")
    chance, words = random.Random(3), ("the", "rail", "carries", "gradients", "from", "node", "to", "node")  # noqa: S311
    (folder / "words.txt").write_text("\n".join(" ".join(chance.choices(words, k=12)) for _ in range(300)))
    (folder / "small.yaml").write_text(RECIPE)
    (folder / "cluster.yaml").write_text(
        f"name: here\nnodes:\n  here: {{host: local, python: {warm_python_here}}}\ntraining: {{workdir: {folder}}}\n"
    )
    return folder


@pytest.fixture(autouse=True)
def _nothing_left(folder: Path) -> Iterator[None]:
    """End what a failed test left behind, and hold that the others leave nothing."""
    yield
    for about in (folder / "runs").glob("*/run.json"):
        run = json.loads(about.read_text())
        if run["status"] == "running" and running(folder, run["id"]):
            call(folder, "train", "--stop", run["id"])
    eventually(lambda: not processes(folder))


def env(folder: Path) -> dict[str, str]:
    return environment(RAILBED_CACHE=str(folder / "cache"))


def call(folder: Path, *arguments: str) -> Result:
    return railbed(folder, *arguments, RAILBED_CACHE=str(folder / "cache"))


def detach(folder: Path, *options: str) -> tuple[str, int]:
    """Start a run, and return its name and its process."""
    return detached(call(folder, *TRAIN, "--detach", "--json", *options))


def detached(result: Result) -> tuple[str, int]:
    """Return the name and the process of a run that was started."""
    assert result.code == 0, result
    (record,) = result.records
    assert record["name"] == "detached"
    assert Path(record["data"]["folder"], "records.jsonl").read_text().startswith('{"name":"training"')
    return record["data"]["run"], record["data"]["pid"]


def running(folder: Path, run: str) -> bool:
    statuses: dict[str, Any] = {record["id"]: record["status"] for record in call(folder, "runs", "--json").records}
    return bool(statuses[run] == "running")


def processes(folder: Path) -> list[str]:
    """Return the agents and ranks that work below a folder."""
    return subprocess.run(["pgrep", "-f", f"{folder}/"], capture_output=True, check=False).stdout.decode().split()


def eventually(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Viewer:
    """An attach whose records are read one by one."""

    def __init__(self, folder: Path, run: str) -> None:
        self.process = Background(["train", "--attach", run, "--json"], cwd=folder, env=env(folder))

    def read(self, until: str) -> dict[str, Any]:
        for line in self.process.stdout:
            record: dict[str, Any] = json.loads(line)
            if record["name"] == until:
                return record
        raise AssertionError(f"the run ended without {until}")

    def end(self) -> Result:
        out, err = self.process.communicate(timeout=SECONDS)
        return Result(self.process.wait(), out.decode(), err.decode())


def test_a_run_outlives_its_terminal_and_is_seen_by_two_and_stopped(folder: Path) -> None:
    (folder / "token").touch(0o600)
    (folder / "token").write_text(TOKEN)
    command = f"{RAILBED} {' '.join(LONG)} --watch --detach && echo prompt && exec sleep 600"
    variables = env(folder) | {"RAILBED_TOKEN_FILE": "token"}
    with Terminal(["sh", "-c", command], folder, variables) as terminal:
        output = terminal.read(until="prompt")
        terminal.hang_up()
        assert terminal.process.wait(SECONDS) == -signal.SIGHUP
    started = re.search(r"\d{8}-\d{6}-train", output)
    assert started, output
    run = started[0]
    for command in (f"railbed train --attach {run} ", f"railbed train --stop {run} ", f"railbed report {run} "):
        assert command in output
    about = json.loads((folder / "runs" / run / "run.json").read_text())
    process = Path("/proc", str(about["process"]["pid"]))
    assert process.joinpath("stat").read_text().rpartition(")")[2].split()[4] == "0", "a terminal controls it"
    assert str(process.joinpath("fd/0").readlink()) == os.devnull
    assert str(process.joinpath("fd/2").readlink()).endswith(f"{run}/output.txt")
    assert TOKEN in output, "the link is printed while there is a terminal"
    assert not [path for path in (folder / "runs" / run).iterdir() if path.is_file() and TOKEN in path.read_text()]

    viewer = Viewer(folder, run)
    assert viewer.read("loss")["labels"]["step"] == 1
    with Terminal([RAILBED, "train", "--attach", "newest"], folder, env(folder)) as terminal:
        terminal.read(until="tokens/s")
        terminal.type("\x03")
        output = terminal.read()
        assert terminal.process.wait(SECONDS) == 130
    assert "generation 1: 1 rank on here" in output
    assert f"{run} is still running: `railbed train --attach {run}`" in output
    assert "railbed: interrupted" not in output
    assert running(folder, run)

    result = call(folder, "train", "--stop", run)
    assert (result.code, processes(folder)) == (0, [])
    assert f"{run} was stopped, and all its ranks have ended" in result.out
    records = viewer.end()
    assert records.code == 130
    assert f"{run} was stopped" in records.err
    again = call(folder, "train", "--attach", run)
    assert again.code == 130
    assert "of 100000 steps: loss" in again.out
    assert "there was nothing to stop" in call(folder, "train", "--stop", run).out


def test_a_run_that_was_killed_is_reported_and_how_to_go_on(folder: Path) -> None:
    """Nor does it keep the caller's files open: a lock or pipe that it inherited would outlive its purpose."""
    reading, writing = os.pipe()
    command = [RAILBED, *LONG, "--detach", "--json"]
    started = subprocess.run(
        command, cwd=folder, env=env(folder), capture_output=True, timeout=SECONDS, pass_fds=[writing], check=False
    )
    run, process = detached(Result(started.returncode, started.stdout.decode(), started.stderr.decode()))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""
    viewer = Viewer(folder, run)
    viewer.read("checkpoint")
    os.kill(process, signal.SIGKILL)
    records = viewer.end()
    for result in (records, call(folder, "train", "--attach", run)):
        assert result.code == 3
        assert f"railbed: {run} ended abnormally: its process was killed" in result.err
        assert f"`railbed train --resume {run}`" in result.err
    eventually(lambda: not processes(folder))
    result = call(folder, "train", "--stop", run, "--json")
    assert (result.code, result.records[0]["data"]["status"]) == (0, "died")

    resumed = call(folder, "train", "--resume", run, "--detach", "--json")
    again = resumed.records[0]["data"]["run"]
    viewer = Viewer(folder, again)
    step = viewer.read("resuming")["data"]["step"]
    assert step >= 4
    assert viewer.read("resumed")["data"]["step"] == step
    refused = call(folder, "train", "--resume", again)
    assert (refused.code, f"{again} is still running" in refused.err) == (2, True)
    assert call(folder, "train", "--stop", again).code == 0
    assert viewer.end().code == 130


@pytest.fixture(scope="module")
def done(folder: Path) -> str:
    """A run of sixty steps that ended, watched by a view; its states are those of step 50 and 60."""
    run, _ = detach(folder, "--set", "steps=60", "--sample", "0.5")
    view = call(folder, "train", "--attach", run)
    assert (view.code, view.out.startswith("trained 60 of 60 steps: loss ")) == (0, True), view
    return run


def states(folder: Path, run: str) -> Path:
    """Return the folder of a run's checkpoints."""
    with (folder / "runs" / run / "records.jsonl").open() as records:
        job = str(json.loads(records.readline())["data"]["run"])
    return folder / ".railbed" / "runs" / job / "here" / "checkpoints"


def named(result: Result, name: str) -> list[dict[str, Any]]:
    return [record for record in result.records if record["name"] == name]


def test_a_run_is_resumed_from_any_folder_on_its_own_cluster(folder: Path, done: str, tmp_path: Path) -> None:
    """A cluster file that lies in this folder is another one."""
    (tmp_path / "cluster.yaml").write_text("name: other\nnodes: {other: {host: 192.0.2.1}}\n")
    shutil.rmtree(states(folder, done) / "step-00000060")
    cache = str(folder / "cache")
    result = railbed(tmp_path, "train", "--resume", folder / "runs" / done, "--json", RAILBED_CACHE=cache)
    assert result.code == 0, result
    (resuming,) = named(result, "resuming")
    assert resuming["message"] == "continues after step 50 of 60; the state is on here"
    assert [record["labels"]["step"] for record in named(result, "loss")] == list(range(51, 61))
    assert f"{done} continues on its own cluster, here (here)" in result.err
    assert named(result, "training")[0]["data"]["ranks"] == 1  # as it was begun
    assert named(result, "training")[0]["data"]["sample"] == 0.5
    assert named(result, "sampling")[0]["data"]["interval"] == 0.5
    assert "cpu_busy_us" in {series.meter for series in SeriesReader(folder / "runs" / done).series()}
    refused = call(tmp_path, "train", "--resume", str(folder / "runs" / done), "-c", "cluster.yaml")
    assert refused.code == 2
    assert f"cluster.yaml has none of the nodes of {done}, which ran on here" in refused.err


def test_a_run_without_a_good_checkpoint_is_not_started_anew_unasked(folder: Path, done: str) -> None:
    checkpoints = states(folder, done)
    for weights in checkpoints.glob("*/model.safetensors"):
        weights.write_bytes(b"")
    unusable = call(folder, "train", "--resume", done)
    assert unusable.code == 3
    assert f"no checkpoint of {done} can be used: here: checkpoint" in unusable.err
    shutil.rmtree(checkpoints)
    nothing = call(folder, "train", "--resume", done)
    assert nothing.code == 2
    assert f"there is nothing to resume: no node has a checkpoint of {done}" in nothing.err
    assert f"`railbed train --resume {done} --from-start` starts it again at step 1" in nothing.err
    begun = call(folder, "train", "--resume", done, "--from-start", "--json")
    assert begun.code == 0
    assert [record["labels"]["step"] for record in named(begun, "loss")] == list(range(1, 61))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--resume", "RUN", "--set", "steps=3"), "--resume and --set cannot be combined"),
        (("tiny", "--resume", "RUN"), "--resume and RECIPE cannot be combined"),
        (("tiny", "--from-start"), "--from-start needs --resume RUN"),
        (("tiny", "--sample", "0.05"), "samples are taken at most every 0.1 s, not every 0.05 s"),
        (("--resume", "nowhere"), "there is no run 'nowhere'"),
    ],
    ids=str,
)
def test_what_does_not_go_with_resuming_is_refused(folder: Path, options: tuple[str, ...], message: str) -> None:
    result = call(folder, "train", *options)
    assert (result.code, message in result.err) == (2, True), result


def test_a_view_of_a_run_that_ended_shows_its_end_and_exit_code(folder: Path, done: str) -> None:
    """As the view did that watched it to its end."""
    result = call(folder, "train", "--attach", done)
    assert (result.code, result.out.startswith("trained 60 of 60 steps: loss ")) == (0, True), result
    assert (folder / "runs" / done / "output.txt").read_text() == ""
    assert f"{done} was already done: there was nothing to stop" in call(folder, "train", "--stop", done).out


def test_a_run_that_fails_later_is_reported_by_the_view(folder: Path) -> None:
    run, _ = detach(folder, "--min-nodes", "2")
    result = call(folder, "train", "--attach", run)
    assert result.code == 3
    assert "2 are needed" in result.err
    assert f"{run} failed; its output is in runs/{run}/output.txt" in result.err
    assert "2 are needed" in (folder / "runs" / run / "output.txt").read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        ("--set", "step=3"),
        ("--set", "data.files=[nowhere.txt]"),
        ("--cluster", "nowhere.yaml"),
        ("--ranks", "none"),
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_reported_as_without(folder: Path, wrong: tuple[str, str]) -> None:
    before = set((folder / "runs").glob("*"))
    plain, detached = (call(folder, *TRAIN, *wrong, *more) for more in ((), ("--detach",)))
    assert plain == detached
    assert (plain.code, plain.out) == (2, "")
    assert set((folder / "runs").glob("*")) == before


def test_a_run_that_its_check_refuses_does_not_continue(folder: Path) -> None:
    """Its estimate of the memory is part of the check; the exit code is that of the run."""
    before = set((folder / "runs").glob("*"))
    with Terminal([RAILBED, *TRAIN, "--detach", "--set", "model.width=65536"], folder, env(folder)) as terminal:
        output = terminal.read()
        assert terminal.process.wait(SECONDS) == 2
    assert "continues in the background" not in output
    assert "the model is too big for here" in output
    (run,) = set((folder / "runs").glob("*")) - before
    assert f"saved in runs/{run.name}: " in output
    (about,) = (record for record in call(folder, "runs", "--json").records if record["id"] == run.name)
    assert (about["status"], about["exit"]) == ("failed", 2)


def test_a_check_that_takes_long_continues_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leaving: list[Path] = []
    monkeypatch.setattr(detach_module, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(detach_module, "_write_to", leaving.append)
    reading, waiting = os.pipe()
    screen = detach_module.BackgroundScreen(waiting, (), progress=False)
    screen.begin(tmp_path)

    async def check() -> bytes:
        screen.show(event(name="reading"))
        return await asyncio.to_thread(os.read, reading, 4096)

    assert asyncio.run(check()) == os.fsencode(tmp_path) + detach_module.LATE
    assert leaving == [tmp_path / "output.txt"]
    screen.leave_terminal()
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_run_that_cannot_be_kept_is_reported_as_without(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    for name in ("small.yaml", "cluster.yaml", "words.txt"):
        (tmp_path / name).symlink_to(folder / name)
    plain, detached = (call(tmp_path, *TRAIN, *more) for more in ((), ("--detach",)))
    assert plain == detached
    assert plain.code == 2
    assert "cannot store the run in runs" in plain.err


def test_ctrl_c_after_a_checkpoint_says_how_to_continue(folder: Path) -> None:
    before = set((folder / "runs").glob("*"))
    with Terminal([RAILBED, *TRAIN, "--set", "checkpoint.steps=5"], folder, env(folder)) as terminal:
        terminal.read(until="tokens/s")
        (run,) = set((folder / "runs").glob("*")) - before
        eventually(lambda: b'"name":"checkpoint"' in (run / "records.jsonl").read_bytes())
        terminal.type("\x03")
        output = terminal.read()
        assert terminal.process.wait(SECONDS) == 130
    assert re.search(r"trained [\d,]+ of 100000 steps: loss \d", output), output
    assert re.search(
        rf"saved in runs/{run.name}: [\d,]+ records, [\d,]+ of 100000 steps, checkpoint of step \d+", output
    ), output
    assert f"continue: railbed train --resume {run.name}" in output
    (about,) = (json.loads(line) for line in call(folder, "runs", "--json").out.splitlines() if run.name in line)
    assert about["next"] == f"railbed train --resume {run.name}"


def test_ctrl_c_before_the_run_began_ends_it(folder: Path) -> None:
    """A text that never arrives keeps it preparing; the pipe ends when no process has it open."""
    os.mkfifo(folder / "never.txt")
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [RAILBED, *TRAIN, "--detach", "--set", "data.files=[never.txt]"],
        cwd=folder,
        env=env(folder),
        stderr=subprocess.PIPE,
        pass_fds=(writing,),
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads)
    )
    os.close(writing)
    text = opened_once_read(folder / "never.txt")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    os.close(text)
    assert (process.returncode, err) == (130, b"railbed: interrupted\n")
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""


DEAF = """
import os, signal, sys
from railbed.cli.background import detach as detached

def hear(*_):
    os.write(1, b"x")
    heard.append(1)
    if len(heard) == int(sys.argv[1]):
        os._exit(130)

heard, detached.HEARD_SECONDS = [], 0.5
signal.signal(signal.SIGINT, hear)
reading, waiting = os.pipe()
if not (process := os.fork()):
    while True:
        signal.pause()
os.close(waiting)
with open(reading, "rb") as pipe:
    print(detached.hand_on(process, pipe))
os.kill(process, 0)
"""
"""A process in the background that ends at the Nth Ctrl-C; the last line fails, since it is gone by then."""


@pytest.mark.parametrize(("ends_at", "heard"), [(2, "xxTrue"), (99, "xx+False")])
def test_a_ctrl_c_that_is_lost_is_handed_on_again_and_the_process_ends(ends_at: int, heard: str) -> None:
    command = [sys.executable, "-c", DEAF, str(ends_at)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert re.fullmatch(heard, done.stdout.strip()), done
    assert "ProcessLookupError" in done.stderr, done


def opened_once_read(fifo: Path) -> int:
    """Open a pipe for writing as soon as somebody reads it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.05)
    raise AssertionError(f"nobody reads {fifo}")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--attach", "newest", "--set", "steps=3"), "--attach and --set cannot be combined"),
        (("tiny", "--stop", "newest"), "--stop and RECIPE cannot be combined"),
        (("--attach", "a", "--stop", "b"), "--attach and --stop cannot be combined"),
        (("--list", "--detach"), "--list and --detach cannot be combined"),
        (("--attach", "newest"), "there is no training run in runs"),
        (("--stop", "20200101-000000-train"), "there is no run"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_are_refused(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    result = call(tmp_path, "train", *arguments)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert result.err.startswith("railbed: ")


def test_a_run_of_another_verb_is_refused(tmp_path: Path) -> None:
    assert call(tmp_path, "check", "kernel_equal", "-c", "local").code == 0
    (run,) = (path.name for path in (tmp_path / "runs").iterdir())
    result = call(tmp_path, "train", "--attach", run)
    assert (result.code, result.err.partition("\n")[0]) == (2, f"railbed: {run} is not a training run")


def test_there_is_one_thread_when_the_process_is_forked() -> None:
    code = "import os, railbed.cli.main as main; main.make_app(['train']); print(len(os.listdir('/proc/self/task')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"1\n"
