"""Jobs that do not start by themselves: the sentence that a person reads, and where it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from railbed.cli.background import stop
from railbed.cli.background.attach import NeverStarts, follow_job
from railbed.cli.slurm import jobs
from railbed.cli.slurm.jobs import OBSTACLES, obstacle
from railbed.store import new_run, summary_of
from railbed.store.submitted import note_job
from railbed.transport.queue import JobDetails, QueuedJob

TOO_LARGE = "job 7 does not start: it requests more than its partition has or allows (Slurm: PartitionConfig)"


def waiting(reason: str) -> QueuedJob:
    return QueuedJob(id=7, state="PENDING", reason=reason)


def list_from(monkeypatch: pytest.MonkeyPatch, folder: Path, answer: Callable[[], QueuedJob]) -> None:
    """Let Slurm list job 7 as that of a folder."""

    async def list_jobs(numbers: Collection[int]) -> dict[int, QueuedJob]:
        return {number: replace(answer(), folder=str(folder)) for number in numbers}

    for module in (jobs, stop):
        monkeypatch.setattr(module, "list_jobs", list_jobs)


@pytest.mark.parametrize("reason", OBSTACLES)
def test_every_reason_makes_a_sentence(reason: str) -> None:
    sentence = obstacle(waiting(reason))
    assert sentence.startswith("job 7 does not start: ")
    assert sentence.endswith(f"(Slurm: {reason})")
    assert "{" not in sentence


def test_what_passes_by_itself_is_no_obstacle() -> None:
    assert [obstacle(waiting(reason)) for reason in ("Resources", "Priority", "", "a new reason")] == [""] * 4
    assert obstacle(None) == ""
    assert obstacle(QueuedJob(id=7, state="CANCELLED", reason="PartitionConfig")) == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_a_person_who_follows_a_job_reads_the_obstacle_once(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path))
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.3)
    states = answers()

    async def read_details(number: int) -> JobDetails:
        return JobDetails(state=f"CANCELLED of {number}", reason="", restarts=0, batch_host="", may_requeue=True)

    monkeypatch.setattr(jobs, "read_details", read_details)
    folder = tmp_path / new_run("check", cluster_name="slurm", status="waiting").id
    list_from(monkeypatch, folder, lambda: next(states))
    with pytest.raises(jobs.JobEnded, match="Slurm reports it as CANCELLED") as error:
        follow_job(folder, 7, as_json=as_json)
    assert error.value.hint == "it never started"
    out, err = capsys.readouterr()
    if as_json:
        assert [json.loads(line)["message"] for line in out.splitlines()] == [TOO_LARGE]
    else:
        assert err.splitlines() == [TOO_LARGE, f"  `railbed runs --stop {folder.name}` takes it out of the queue"]


@pytest.mark.parametrize(("reason", "is_final"), [("PartitionTimeLimit", True), ("JobHeldUser", False)])
def test_whoever_submits_does_not_wait_for_a_job_that_can_never_start(
    reason: str, is_final: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled; a job that somebody may release is not, and neither is one that is only followed."""
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path))
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.3)
    cancelled: list[int] = []
    polls = count()

    def answer() -> QueuedJob:
        ended = cancelled or next(polls) > 4
        return QueuedJob(id=7, state="CANCELLED") if ended else waiting(reason)

    async def read_details(number: int) -> JobDetails:
        return JobDetails(state=f"CANCELLED of {number}", reason="", restarts=0, batch_host="", may_requeue=True)

    async def cancel_job(number: int) -> None:
        cancelled.append(number)

    monkeypatch.setattr(jobs, "read_details", read_details)
    monkeypatch.setattr(stop, "cancel_job", cancel_job)
    folder = tmp_path / new_run("check", cluster_name="slurm", status="waiting").id
    list_from(monkeypatch, folder, answer)
    note_job(folder, 7)
    with pytest.raises(NeverStarts if is_final else jobs.JobEnded) as error:
        follow_job(folder, 7, as_json=False, gives_up=True)
    assert cancelled == ([7] if is_final else [])
    if is_final:
        assert error.value.message.startswith("job 7 does not start: it requests more than its partition")
        assert error.value.message.endswith("(Slurm: PartitionTimeLimit), and was cancelled")
        assert summary_of(folder).status == "stopped"
        cancelled.clear()
        with pytest.raises(SystemExit):
            follow_job(folder, 7, as_json=False)
        assert cancelled == []


def answers() -> Iterator[QueuedJob]:
    yield from [waiting("Priority"), waiting("PartitionConfig"), waiting("PartitionConfig")]
    while True:
        yield QueuedJob(id=7, state="CANCELLED")
