"""The messages about a run that ends early (where it is, what it has, what continues it), and its summary."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
from tests.support.events import event

from railbed.api.site import built_in_local
from railbed.api.stored import read_run
from railbed.cli.options import Options
from railbed.cli.run.perform import perform
from railbed.cli.run.signals import Interrupted
from railbed.cli.run.unfinished import KeptRun, next_command
from railbed.cli.screens.base import Screen
from railbed.cli.screens.bench import BenchScreen
from railbed.cli.screens.train import TrainScreen
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.store import find_run, list_runs, open_run
from railbed.train.progress.steps import Phases

STEPS = event(name="training", data={"run": "a", "recipe": {"steps": 200, "traffic": None}})
TRAFFIC = event(name="training", data={"run": "a", "recipe": {"steps": 200, "traffic": {"gradient_bytes": 4_000_000}}})
OPTIONS = Options(json=False, record=None, replay=None, timeout=10.0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def step(number: int, **values: float) -> list[Record]:
    return [
        Measurement(name=name, value=value, unit="s", labels={"step": number, "rank": 0, "node": "n1"})
        for name, value in values.items()
    ]


def trial(done: int, total: int) -> Event:
    data = {"number": done + 1, "seconds": 1.0, "done": done, "total": total, "left": 1.0, "expected": 1.0}
    return event(name="trial", subject="n1 > n2", message="iperf3", data=data)


def checkpoint(number: int) -> Event:
    return event(name="checkpoint", subject="n1", data={"step": number})


def notes(words: list[str], *records: Record) -> list[str]:
    with open_run(words[0], cluster_name="c", cluster_text="", arguments=words) as run:
        stored = KeptRun(run)
        for record in records:
            stored.take(record)
            run.append(record)
        run.finish("stopped", 130)
        return [note.replace(run.folder.name, "RUN") for note in stored.notes()]


def test_training_is_continued_from_its_checkpoint() -> None:
    words = ["train", "tiny", "--cluster=my lab.yaml"]
    records = (STEPS, *step(120, step_seconds=0.1), checkpoint(50), checkpoint(100))
    assert notes(words, *records) == [
        "saved in runs/RUN: 4 records, 120 of 200 steps, checkpoint of step 100",
        "continue: railbed train --resume RUN",
    ]
    (run,) = list_runs()
    assert next_command(run, find_run(run.id)) == f"railbed train --resume {run.id}"


def test_training_without_a_checkpoint_is_started_again() -> None:
    words = ["train", "tiny", "--set", "data.files=[a b.txt]"]
    assert notes(words, STEPS)[1] == "start again: railbed train tiny --set 'data.files=[a b.txt]'"
    (run,) = list_runs()
    assert next_command(run, find_run(run.id)) == "railbed train tiny --set 'data.files=[a b.txt]'"


def test_a_bench_points_to_its_report() -> None:
    assert notes(["bench", "rdma", "-c", "lab.yaml"], trial(38, 120)) == [
        "saved in runs/RUN: 1 record, 38 of 120 trials measured",
        "railbed report RUN shows it; start again: railbed bench rdma -c lab.yaml",
    ]


class Silent(Screen):
    """Notes what it is asked to do."""

    def __init__(self) -> None:
        super().__init__(progress=False)
        self.calls: list[str] = []

    def show(self, record: Record) -> None:
        self.calls.append(type(record).__name__)

    def finish(self, run: Path) -> None:
        self.calls.append(f"finish {run}")

    def cut_short(self, run: Path) -> None:
        self.calls.append("cut short")
        (about,) = list_runs()
        assert about.status != "running", "how it ended is written before anything is shown"
        assert find_run(about.id) == run


def judged() -> Iterator[Record]:
    yield Finding(check="late", subject="n1", verdict=Verdict.OK, expected="", observed="", why="")


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [(KeyboardInterrupt(), Interrupted, "stopped"), (DeviceError("gone"), DeviceError, "failed")],
)
def test_a_verb_that_is_cut_short_is_judged_shown_and_named(
    error: BaseException, raised: type[BaseException], status: str
) -> None:
    async def work(_fleet: Fleet) -> AsyncGenerator[Record, None]:
        yield trial(0, 2)
        raise error

    screen = Silent()
    with pytest.raises(raised) as caught:
        perform("bench", built_in_local(), OPTIONS, work, screen=screen, closing=judged)
    (run,) = list_runs()
    assert run.status == status
    assert screen.calls == ["TrialStarted", "Finding", "cut short"]
    assert "late" in [finding.check for finding in read_run(run.id).findings()]
    first, second = caught.value.__notes__
    assert first.startswith(f"saved in runs/{run.id}: ")
    assert "0 of 2 trials measured" in first
    assert second.startswith(f"railbed report {run.id} shows it; start again: ")


def test_an_interrupted_bench_shows_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    screen = BenchScreen(verbose=False)
    labels: dict[str, str | int] = {"test": "iperf3", "from": "n1", "to": "n2", "rail": "rail0"}
    for record in (
        trial(0, 3),
        Measurement(name="bandwidth", value=9.4, unit="Gb/s", labels=labels),
        trial(1, 3),
        *judged(),
    ):
        screen.show(record)
    screen.cut_short(Path("runs/1"))
    out = capsys.readouterr().out
    assert "9.40" in out
    assert "1 ok" in out
    assert "interrupted: 1 of 3 measured" in out


def shown(capsys: pytest.CaptureFixture[str], *records: Record, ended: bool = True) -> str:
    screen = TrainScreen(verbose=False)
    for record in records:
        screen.show(record)
    (screen.finish if ended else screen.cut_short)(Path("runs/1"))
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("ended", [True, False])
def test_a_load_for_the_network_is_summed_up(capsys: pytest.CaptureFixture[str], *, ended: bool) -> None:
    steps = [
        record
        for number in (1, 2)
        for record in step(number, step_seconds=0.01, allreduce_exposed_seconds=0.004, bytes_sent=4e6)
    ]
    path = event(name="gradient_path", message="gradients went over RDMA", data={"verdict": "ok", "short": "RDMA"})
    out = shown(capsys, TRAFFIC, *steps, path, ended=ended)
    assert out.startswith(
        "reduced 2 of 200 gradients of 4.00 MB: 400 MB/s while reducing, 4.00 ms of a step spent waiting for the "
        "network in the median, 8.00 MB sent by rank 0, RDMA gradients went over RDMA"
    )
    assert ("saved in runs/1" in out) is ended


def test_training_that_is_cut_short_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, STEPS, *step(7, loss=3.25, tokens_per_second=1000.0, step_seconds=0.1), ended=False)
    assert out == "trained 7 of 200 steps: loss 3.250 → 3.250, 1,000 tokens/s in the median"


def test_what_ranks_do_between_steps_is_reported_once() -> None:
    phases = Phases(2)

    def heard(rank: int, phase: str) -> list[str]:
        return [event.message for event in phases.receive(rank, {"kind": "alive", "phase": phase})]

    assert heard(0, "starting") == ["ranks are loading torch"]
    assert heard(0, "joining") == []
    assert heard(1, "starting") == []
    assert heard(1, "joining") == ["ranks are joining each other"]
    assert heard(0, "training") == []
    assert heard(1, "training") == []
    assert heard(1, "exporting") == []
    assert heard(0, "exporting") == ["exporting the weights"]
