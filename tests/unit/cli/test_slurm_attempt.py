"""A job that starts again: what its records tell, when training may leave, and state in the folder that nodes share."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from railbed.api.running import LeftEarly
from railbed.cli.slurm import attempt as module
from railbed.cli.slurm.attempt import NoProgress, NotRequeued, read_history, this_attempt
from railbed.errors import CheckpointDamaged, Unreachable
from railbed.fleet import Fleet
from railbed.launch.files.ship import parcel
from railbed.launch.placement import Placement
from railbed.launch.supervise import GaveUp
from railbed.model import events
from railbed.model.cluster import Cluster, Node
from railbed.model.record import Measurement, Record
from railbed.store import Store, new_run, open_run, read_run_in, record_lines, run_to_continue
from railbed.store.submitted import job_of, note_job
from railbed.train.departure import Departure
from railbed.train.ranks import KnownCheckpoints, TrainingRun, ranks_of
from railbed.train.spec import ResumeSource, TrainSpec
from railbed.train.state.checkpoints import Written, copy, publish, survey, write_synced
from railbed.transport.queue import JobDetails


def step(number: int) -> Measurement:
    return Measurement(name="step_seconds", value=1.0, unit="s", labels={"step": number, "rank": 0, "node": "a"})


def around() -> Store:
    """The store inside a job."""
    return Store(continued=run_to_continue())


def write(*records: Record) -> None:
    with open_run("train", cluster_name="c", cluster_text="name: c\n", store=around()) as run:
        for record in records:
            run.append(record)


@pytest.fixture
def folder(runs_here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a submitted run."""
    folder = runs_here / new_run("train", cluster_name="slurm", status="waiting").id
    monkeypatch.setenv("RAILBED_RUN", str(folder))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return folder


def test_every_start_of_a_job_writes_the_same_run(folder: Path) -> None:
    summary = read_run_in(folder)
    assert summary
    assert summary.status == "waiting"
    write(events.TrainingStarted(run="first"))
    with (folder / "records.jsonl").open("ab") as file:
        file.write(b'{"kind":"event","na')  # the host lost power in the middle of a record
    (folder / "raw").mkdir()
    with open_run("train", cluster_name="c", cluster_text="name: other\n", store=around()) as run:
        assert run.folder == folder
        assert run.raw == folder / "raw-2"
        run.append(events.TrainingStarted(run="second"))
    assert [line.startswith(b'{"name":"training"') for line in record_lines(folder)] == [True, False, True]
    assert (folder / "cluster.yaml").read_text() == "name: other\n"
    history = read_history(folder)
    assert history.started
    assert (history.started.run, history.fruitless) == ("first", 2)


def test_the_newest_state_and_who_has_it(folder: Path) -> None:
    write(
        events.TrainingStarted(run="r"),
        events.CheckpointSaved(subject="a", step=10),
        events.CheckpointCopied(subject="a", step=10),
        events.CheckpointSaved(subject="a", step=20),
        events.CheckpointSaved(subject="b", step=20),
    )
    history = read_history(folder)
    assert (history.step, history.nodes, history.fruitless) == (20, ("a", "b"), 0)
    write(events.TrainingStarted(run="r"), events.Resuming(subject="x", step=10, nodes=[]))
    history = read_history(folder)
    assert (history.step, history.nodes, history.fruitless) == (10, (), 1)


@pytest.mark.usefixtures("folder")
def test_starts_that_save_nothing_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    write(*[events.TrainingStarted(run="r")] * 5)
    attempt = this_attempt()
    assert attempt
    attempt.require_progress()  # the first start of this job: a person wants to try again
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    attempt = this_attempt()
    assert attempt
    with pytest.raises(NoProgress, match="3 starts of job 7 in a row saved no new state"):
        attempt.require_progress()


def test_outside_a_submitted_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAILBED_RUN", raising=False)
    assert this_attempt() is None


def test_the_job_of_a_run(folder: Path) -> None:
    assert job_of(folder) is None
    note_job(folder, 12)
    job = job_of(folder)
    assert job
    assert job.number == 12
    (folder / "job.json").write_text('{"job": "x"}')
    assert job_of(folder) is None


def test_training_leaves_when_the_state_after_the_request_is_safe() -> None:
    departure, requests = Departure(), []
    departure.on_request(lambda: requests.append(True))
    assert not departure.is_over(events.GenerationStarted(), {})
    assert not departure.is_over(step(7), {})
    assert not departure.is_over(events.CheckpointCopied(step=5), {})
    departure.request()
    departure.request()
    assert len(requests) == 1
    assert not departure.is_over(events.CheckpointCopied(step=6), {})
    assert not departure.is_over(events.GenerationStarted(), {})  # another generation has not been asked yet
    assert len(requests) == 2
    assert departure.is_over(events.CheckpointCopied(step=8), {})
    assert departure.copied == 8
    departure.note(events.CheckpointCopied(step=10))  # while the ranks are being ended
    assert departure.copied == 10
    assert departure.is_over(events.CheckpointFailed(message="full"), {})
    assert departure.is_over(step(9), {"traffic": {"gradient_bytes": 1}})


def saved(folder: Path, number: int, content: bytes = b"x") -> dict[str, Written]:
    return {"model": write_synced(folder / "model", content + str(number).encode())}


def test_copies_are_verified_and_the_newest_two_remain(tmp_path: Path) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    for number in (10, 20, 30):
        there = copy(publish(own, number, partial(saved, number=number)), shared)
        assert there.path == shared / f"step-{number:08d}"
    assert [state.step for state in survey(shared).good] == [30, 20]
    late = publish(tmp_path / "late", 5, lambda beside: saved(beside, 5))
    copy(late, shared)  # from a rank that was frozen: what is newer stays
    assert [state.step for state in survey(shared).good] == [30, 20]
    changed = publish(tmp_path / "changed", 40, lambda beside: saved(beside, 40))
    (changed.path / "model").write_bytes(b"y40")
    with pytest.raises(CheckpointDamaged):
        copy(changed, shared)
    assert sorted(path.name for path in shared.iterdir()) == ["step-00000020", "step-00000030"]


@pytest.mark.parametrize(
    ("own", "copied", "expected"),
    [
        ({}, None, None),
        ({}, 20, ResumeSource(step=20, rank=0, folder="/run/state")),
        ({"b": 20}, 20, ResumeSource(step=20, rank=1)),
        ({"b": 10}, 20, ResumeSource(step=20, rank=0, folder="/run/state")),
    ],
)
def test_ranks_continue_from_the_newest_state(
    own: dict[str, int], copied: int | None, expected: ResumeSource | None
) -> None:
    checkpoints = KnownCheckpoints(copied=copied)
    for node, number in own.items():
        checkpoints.note(node, number, "hash")
    run = TrainingRun(name="r", recipe={}, tokens=parcel("tokens", {}), shared="/run", request="ask")
    placements = [Placement(node=name, address="10.0.0.1", folder=f"/home/{name}") for name in ("a", "b")]
    starts = ranks_of(run, 1, placements, checkpoints, 1)
    spec = TrainSpec.from_json(starts["b"][0].job)
    assert spec.resume == expected
    assert (spec.shared, spec.request, spec.export) == ("/run/state", "/home/b/ask", "/run/model")


@pytest.fixture
def _signals() -> Iterator[None]:
    """Handle signals as before, after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals", "folder")
@pytest.mark.parametrize(
    ("state", "requeued"), [("RUNNING", True), ("CANCELLED", False), ("COMPLETING", False), ("", True)]
)
async def test_the_loss_of_all_steps_is_not_the_loss_of_all_nodes(
    monkeypatch: pytest.MonkeyPatch, state: str, requeued: bool
) -> None:
    """`scancel` ends the steps of a job first: the job must not return to the queue."""

    async def read_details(_: int) -> JobDetails:
        if not state:
            raise Unreachable("Slurm does not answer")
        return JobDetails(state=state, reason="", restarts=0, batch_host="node1", may_requeue=True)

    async def seconds() -> float:
        return 30.0

    async def training() -> AsyncGenerator[Record, None]:
        yield events.GenerationStarted()
        raise GaveUp("0 of 3 nodes are left")

    monkeypatch.setattr(module, "read_details", read_details)
    monkeypatch.setattr(module, "kill_wait", seconds)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    attempt = this_attempt()
    assert attempt
    attempt.departure.is_over(events.GenerationStarted(), {})
    cluster = Cluster(name="slurm-7", nodes={"node1": Node(host="10.0.0.1")})
    without_watchdogs = cast("Fleet", None)
    with pytest.raises(LeftEarly) as left:
        _ = [record async for record in attempt.of_job(training(), without_watchdogs, cluster)]
    assert left.value.status == ("waiting" if requeued else "stopped")


def test_the_advice_after_a_refused_requeue_continues_on_as_many_nodes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: int) -> None:
        raise Unreachable("Slurm: Requested operation is presently disabled")

    monkeypatch.setattr(module, "_requeue", refuse)
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(about | {"arguments": ["submit", "train", "-N", "3"]}))
    attempt = this_attempt()
    assert attempt
    monkeypatch.setattr(attempt, "_requeues", True)
    with pytest.raises(NotRequeued) as refused:
        attempt.leave(LeftEarly("waiting", 0))
    assert (
        refused.value.hint
        == f"its state is saved: `railbed submit train --resume {folder.name} --nodes 3` continues it"
    )
