"""Messages of a node that has something else to say: it is reported, and the run of the others goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest
from tests.support.foreign_readers import CLUSTER, PLACEMENTS, RUN, AnsweringFleet
from tests.support.runs import plain_run

from railbed.clusterfile import loads
from railbed.fleet import Fleet
from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.files.client import NodeRefuses, file_client
from railbed.launch.meeting import Meeting
from railbed.launch.messages import DEEPEST, decode
from railbed.launch.placement import Placement
from railbed.launch.supervise import Supervisor
from railbed.model.events import GenerationFailed, NodeLost, Notice
from railbed.store import open_run
from railbed.store.proof import PROOF, is_proven, prove
from railbed.store.timeline import Timeline
from railbed.train.network.ledger import Ledger
from railbed.train.progress.steps import MOST_STEPS, IdleTimes
from railbed.train.ranks import KnownCheckpoints
from railbed.train.run import TrainJob

HUGE = 10**400


def supervisor() -> Supervisor:
    """Return a supervisor whose first generation has started on both nodes."""
    job = TrainJob(RUN, KnownCheckpoints(), Ledger(loads(CLUSTER, name="x"), {}, demanded=False))
    watching = Supervisor(cast("Fleet", None), job, PLACEMENTS, 1)
    for node in "ab":
        watching._note(NodeMessage(node, {"kind": "listening", "port": 5000}))
    watching._start_ranks(1, PLACEMENTS, 29500)
    return watching


def of_rank(message: dict[str, object]) -> dict[str, object]:
    return {"kind": "message", "generation": 1, "rank": 0, "message": message}


@pytest.mark.parametrize(
    "message",
    [
        of_rank({"kind": "progress", "step": 1, "allreduce_exposed_seconds": HUGE}),
        of_rank({"kind": "counters", "rdma": {"x": []}, "net": {"y": 5}}),
    ],
)
def test_a_message_with_fields_of_other_kinds_is_a_notice(message: dict[str, object]) -> None:
    (notice,) = supervisor()._note(NodeMessage("a", message))
    assert isinstance(notice, Notice)
    assert notice.message == "a sent an invalid message"


@pytest.mark.parametrize("port", ["x", [], 1e999, None, 0])
def test_a_listener_without_a_port_is_a_lost_node(port: object) -> None:
    (lost,) = supervisor()._note(NodeMessage("a", {"kind": "listening", "port": port}))
    assert isinstance(lost, NodeLost)


def test_a_message_that_is_nested_too_deeply_to_be_stored_is_none() -> None:
    def nested(depth: int) -> bytes:
        return b'{"kind": "sample", "x": ' + b"[" * depth + b"1" + b"]" * depth + b"}"

    assert decode(nested(DEEPEST - 1)) is not None
    assert decode(nested(DEEPEST)) is None
    assert decode(json.dumps({"kind": "x", "values": [[1]] * 1000}).encode()) is not None


@pytest.mark.parametrize("answer", [{}, {"size": 3}, {"name": "x", "size": []}, {"name": "x", "size": -1}])
def test_an_answer_about_files_without_what_it_needs_is_a_refusal(answer: dict[str, object]) -> None:
    async def read() -> None:
        fleet = cast("Fleet", AnsweringFleet(json.dumps({"kind": "file", **answer}).encode() + b"\nabc"))
        async with file_client(fleet, "a", ["python3"], {}) as remote:
            message = await remote.answer("file")
            assert Path(message["name"])
            async for _ in remote.raw(int(message["size"])):
                pytest.fail("nothing is to be read")

    with pytest.raises(NodeRefuses, match="an answer with missing or wrong fields"):
        asyncio.run(read())


@pytest.mark.usefixtures("runs_here")
def test_a_proof_of_half_a_character_is_not_ours() -> None:
    run = plain_run(status="done")
    prove(run, run.name, {"cluster": b""})
    assert is_proven(run, "cluster", b"")
    (run / PROOF).write_text(json.dumps({"run": run.name, "macs": {"cluster": "\ud800"}}))
    assert not is_proven(run, "cluster", b"")


@pytest.mark.parametrize("port", [0, -1, 70_000, "5000", [5000], None, 1.5])
def test_a_port_that_no_listener_has_is_not_where_ranks_meet(port: object) -> None:
    meeting = Meeting(1, 0, {"a": Mock(AgentLink)})
    meeting.request([Placement(node="a", address="10.1.0.1", ranks=1, interface="eth1", code="/c", folder="/a")])
    assert meeting.take(NodeMessage("a", {"kind": "meeting", "generation": 1, "port": port})) == []
    assert (meeting.port, meeting.obstacle) == (0, "it named no port")


def test_steps_that_a_rank_makes_up_do_not_fill_the_memory() -> None:
    idle = IdleTimes(2)
    for step in range(2 * MOST_STEPS):
        assert idle.receive("a", 0, {"kind": "progress", "step": step, "allreduce_exposed_seconds": 1}) == []
    assert len(idle._waits) == MOST_STEPS
    last = 2 * MOST_STEPS - 1
    assert len(idle.receive("b", 1, {"kind": "progress", "step": last, "allreduce_exposed_seconds": 2})) == 2


def test_equal_marks_with_and_without_a_generation_are_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILBED_RUNS", str(tmp_path))
    with open_run("train", cluster_name="x", cluster_text="") as run:
        for generation in (1, None):
            run.append(GenerationFailed(subject="a", message="m", generation=generation, time=1.79e9))
        run.finish("done", 0)
    assert len(Timeline(run.folder).marks()) >= 2
