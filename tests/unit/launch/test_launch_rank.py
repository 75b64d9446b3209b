"""The entry point of all ranks: every job's errors reach the user with their reason and their hint."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.events import event

from railbed.bench.collective import run as collective_run
from railbed.bench.collective.run import CollectiveJob
from railbed.bench.collective.spec import CollectiveSpec, Operation
from railbed.errors import Interference, RankFailed
from railbed.fleet import Fleet
from railbed.launch.generation import RankWatch
from railbed.launch.job import ENTRY, rank_specs, rank_starts
from railbed.launch.placement import Placement
from railbed.launch.rank import describe
from railbed.launch.supervise import StartRefused
from railbed.model.record import Finding, Record, Verdict

PLACEMENT = Placement(node="a", address="127.0.0.1", ranks=1, interpreter=(sys.executable,))


def messages_of(folder: Path, function: str, spec: CollectiveSpec, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Run a rank to its end, and return its messages."""
    (start,) = rank_starts(function, [spec], [PLACEMENT])["a"]
    job = folder / "job.json"
    job.write_text(start.job)
    read, write = os.pipe()
    values = {"{job}": str(job), "{messages}": str(write), "{listener}": "-1"}
    command = [values.get(part, part) for part in start.command]
    assert ENTRY in command
    ended = subprocess.run(
        command, pass_fds=[write], env={**os.environ, **environment}, capture_output=True, timeout=120, check=False
    )
    os.close(write)
    with os.fdopen(read) as lines:
        messages = [json.loads(line) for line in lines]
    assert ended.returncode == 1, ended.stderr.decode()
    return [message for message in messages if message["kind"] != "alive"]


def spec_of(engine: str = "nccl", **fields: Any) -> CollectiveSpec:
    (common,) = rank_specs("bench-1", 1, [PLACEMENT], 0)
    return CollectiveSpec(
        **{**common.common(), **fields}, engine=engine, operations=(Operation(name="all_reduce", sizes=(8,)),)
    )


def test_a_refusal_in_the_workers_of_bench_reaches_the_user_with_its_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refusing.py").write_text(
        "from railbed.errors import RankFailed\n"
        "def run(spec, messages):\n"
        "    raise RankFailed(f'{spec.engine} does not work here', hint='use gloo', refused=True)\n"
    )
    paths = f"{tmp_path}:{Path(__file__).parents[3] / 'src'}"
    (error,) = messages_of(tmp_path, "refusing:run", spec_of(), {"PYTHONPATH": paths})
    watch = RankWatch({0: "a"})
    watch.note(0, error)
    assert watch.refusal == ("nccl does not work here", "use gloo")

    class Refusing:
        """A supervisor that gets this far."""

        def __init__(self, *_: object, port: int) -> None: ...

        async def run(self) -> AsyncIterator[Record]:
            if watch.refusal:
                raise StartRefused(watch.refusal[0], hint=watch.refusal[1])
            yield event(name="done")

    monkeypatch.setattr(collective_run, "Supervisor", Refusing)
    (finding,) = asyncio.run(records_of(CollectiveJob("bench-1", "nccl", ()), [PLACEMENT]))
    assert isinstance(finding, Finding)
    assert (finding.verdict, finding.observed, finding.remedy) == (
        Verdict.FAIL,
        "nccl does not work here",
        "use gloo",
    )


async def records_of(job: CollectiveJob, placements: Sequence[Placement]) -> list[Record]:
    async with aclosing(collective_run._supervise(cast("Fleet", None), job, placements, 0)) as records:
        return [record async for record in records]


def test_a_module_that_is_missing_is_named_without_installing_what_somebody_registered(tmp_path: Path) -> None:
    (tmp_path / "importing.py").write_text("import a_package_that_is_not_there.part\n")
    paths = f"{tmp_path}:{Path(__file__).parents[3] / 'src'}"
    (error,) = messages_of(tmp_path, "importing:run", spec_of(), {"PYTHONPATH": paths})
    assert error["sentence"] == f"a_package_that_is_not_there is not installed for {sys.executable}"
    assert error["hint"] == "install the package that provides it"
    job = CollectiveJob("bench-1", "nccl", ())
    job.receive("a", 0, error)
    assert (job.errors[0].missing, job.errors[0].hint) == (True, error["hint"])


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (RankFailed("b is gone", peer=True), {"sentence": "b is gone", "peer": True, "refused": False}),
        (Interference("somebody else answers"), {"peer": True, "interference": True}),
        (OSError(errno.ENOSPC, "no", "/x"), {"sentence": "the disk is full: /x"}),
        (ModuleNotFoundError("no", name="railbed.gone"), {"sentence": "ModuleNotFoundError: no"}),
        (ZeroDivisionError("by zero"), {"sentence": "ZeroDivisionError: by zero"}),
    ],
)
def test_an_error_becomes_the_fields_of_its_message(error: BaseException, fields: dict[str, object]) -> None:
    assert fields.items() <= describe(error).items()


def test_ranks_are_numbered_over_nodes_and_know_their_place() -> None:
    placements = [
        Placement(node="a", address="10.0.0.1", ranks=2, interface="eth1", environment={"NCCL_NET": "IB"}),
        Placement(node="b", address="10.0.0.2", ranks=1, no_rdma="no port"),
    ]
    specs = rank_specs("run", 3, placements, 29500)
    assert [(spec.rank, spec.node, spec.local_rank, spec.local_world) for spec in specs] == [
        (0, "a", 0, 2),
        (1, "a", 1, 2),
        (2, "b", 0, 1),
    ]
    assert {(spec.world, spec.master_address, spec.master_port, spec.generation) for spec in specs} == {
        (3, "10.0.0.1", 29500, 3)
    }
    assert (specs[0].environment, specs[2].no_rdma) == ({"NCCL_NET": "IB"}, "no port")
