"""What `sbatch`, `squeue` and `scontrol` print about jobs, as Slurm 22.05 printed it in a lab."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from railbed.errors import ParseError, RailbedError, UsageError
from railbed.transport.queue import (
    QueuedJob,
    parse_details,
    parse_kill_wait,
    parse_number,
    parse_queue,
    parse_sizes,
    submit_script,
)
from railbed.transport.slurm import SlurmSilent

DETAILS = (
    "JobId=7 JobName=railbed-train UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901753 Nice=0 "
    "Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 "
    "Reboot=0 ExitCode=0:0 RunTime=00:00:08 TimeLimit=UNLIMITED NodeList=node[1-3] BatchHost=node1 NumNodes=3 "
    "Command=/x JobState=FAILED/job.sh WorkDir=/x BatchHost=evil Restarts=9\n"
)
CONFIG = "KeepAliveTime           = SYSTEM_DEFAULT\nKillOnBadExit           = 0\nKillWait                = 5 sec\n"


def test_the_number_of_a_job() -> None:
    assert parse_number("12\n") == 12
    assert parse_number("sbatch: a note of the site\n12;cluster\n") == 12


@pytest.mark.parametrize("printed", ["", "Submitted batch job 12\n", "12 13\n", "-1\n", "99999999999\n"])
def test_no_number_of_a_job(printed: str) -> None:
    with pytest.raises(ParseError, match="did not print the number of a job"):
        parse_number(printed)


def test_jobs_in_the_queue() -> None:
    jobs = parse_queue(
        "7|RUNNING|node[1-3]|None|/a|b\n8|PENDING||(Resources)|/\n9|NODE_FAIL|node1|NodeDown\nx|y\n\n|||\n"
    )
    assert [job.in_words for job in jobs.values()] == ["running", "pending (Resources)", "node fail (NodeDown)"]
    assert [job.is_live for job in jobs.values()] == [True, True, False]
    assert [job.is_waiting for job in jobs.values()] == [False, True, False]
    assert jobs[7] == QueuedJob(id=7, state="RUNNING", nodes="node[1-3]", folder="/a|b")


def test_details_of_a_job_come_before_whatever_its_paths_contain() -> None:
    details = parse_details(DETAILS)
    assert (details.state, details.reason, details.restarts, details.batch_host) == ("RUNNING", "", 2, "node1")
    assert details.may_requeue
    with pytest.raises(ParseError):
        parse_details("slurm_load_jobs error: Invalid job id specified\n")


def test_the_time_between_the_two_signals() -> None:
    assert parse_kill_wait(CONFIG) == 5.0
    assert parse_kill_wait("") == 30.0


@pytest.mark.parametrize(
    ("stderr", "kind", "sentence"),
    [
        ("sbatch: error: invalid partition specified: nosuch\nsbatch: error: Batch job submission failed: Invalid "
         "partition name specified", UsageError, "Slurm: invalid partition specified: nosuch"),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
         UsageError, "Slurm: Invalid account or account/partition combination specified"),
        ("sbatch: error: Batch job submission failed: Node count specification invalid", UsageError,
         "Slurm: Node count specification invalid"),
        ("sbatch: error: Invalid --time specification", UsageError, "Slurm: Invalid --time specification"),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", SlurmSilent,
         "Slurm: Unable to contact slurm controller (connect failure)"),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
         SlurmSilent, "Slurm: Batch job submission failed: Unable to contact slurm controller (connect failure)"),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", SlurmSilent,
         "Slurm: Batch job submission failed: Socket timed out on send/recv operation"),
        ("slurm_load_partitions: Zero Bytes were transmitted or received", SlurmSilent,
         "Slurm: slurm_load_partitions: Zero Bytes were transmitted or received"),
        ("sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsbatch: error: fetch_config: DNS "
         "SRV lookup failed\nsbatch: fatal: Could not establish a configuration source", SlurmSilent,
         "Slurm has no settings on this machine: it found neither slurm.conf nor a controller"),
    ],
)  # fmt: skip
def test_slurms_reason_for_refusing_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, kind: type[RailbedError], sentence: str
) -> None:
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\ncat >&2 <<'X'\n{stderr}\nX\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(kind) as refused:
        asyncio.run(submit_script(tmp_path / "job.sh"))
    assert refused.value.message == sentence


def test_how_many_nodes_a_job_may_have() -> None:
    printed = "lab*|0/2/1/3|1-infinite\nurgent|0/0/3/3|1-2\nsmall|0/1/0/1|1\nsomething else\n"
    assert parse_sizes(printed) == {"lab": 3, "": 3, "urgent": 2, "small": 1}
    assert parse_sizes("") == {}
