"""The supervisor on this machine, with two agents: how generations follow each other, and how a job ends."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from railbed.fleet import Fleet
from railbed.launch import supervise
from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.fabric import NodeFabric
from railbed.launch.job import RankStart
from railbed.launch.messages import Message
from railbed.launch.placement import Deployment, Placement
from railbed.launch.supervise import GaveUp, StartRefused, Supervisor
from railbed.model.cluster import LOCAL_HOST, Cluster, Node, Training
from railbed.model.events import GenerationStarted, Notice
from railbed.model.record import Event, Record
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector

RANK = Path(__file__).parents[2] / "support" / "counting_rank.py"
QUIET = {"stops": False, "interference": "", "refuses": ""}


class Counting:
    """A job whose ranks count; the ranks of some generations fail on one node."""

    preload = ()
    advice = "count again"
    may_regroup = False

    def __init__(self, *, fails_on: str = "", refuses: str = "", reports: bool = False) -> None:
        self._fails_on = fails_on
        self._refuses = refuses
        self._reports = reports

    def generation(
        self,
        number: int,  # noqa: ARG002  (part of a job)
        placements: Sequence[Placement],
        port: int,  # noqa: ARG002  (its ranks do not meet)
    ) -> Mapping[str, Sequence[RankStart]]:
        return {
            placement.node: [self._start(rank, len(placements), placement.node)]
            for rank, placement in enumerate(placements)
        }

    def _start(self, rank: int, world: int, node: str) -> RankStart:
        job = {**QUIET, "rank": rank, "world": world, "from": 0, "to": 5, "pace": 0.05, "refuses": self._refuses}
        command = [sys.executable, str(RANK), "{job}", "{messages}"]
        if node == self._fails_on:
            command = [sys.executable, "-c", "import sys; sys.exit(3)"]
        return RankStart(rank=rank, command=command, job=json.dumps(job))

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        match message:
            case {"kind": "progress", "step": int(step)} if self._reports:
                return [Notice(subject=f"{node}/rank{rank}", message=str(step))]
        return []


@asynccontextmanager
async def supervised(job: Counting, folder: Path, minimum: int = 1) -> AsyncGenerator[Supervisor, None]:
    nodes = {name: Node(host=LOCAL_HOST, python=sys.executable) for name in ("a", "b")}
    cluster = Cluster(name="here", nodes=nodes, training=Training(workdir=str(folder)))
    async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
        deployment = Deployment(cluster, dict.fromkeys(nodes, 1), folder="runs/test")
        await deployment.ship(fleet)
        placements = deployment.placements(dict.fromkeys(nodes, NodeFabric()))
        yield Supervisor(fleet, job, placements, minimum)


async def events_of(job: Counting, folder: Path, minimum: int, events: list[Event]) -> None:
    async with supervised(job, folder, minimum) as supervisor, aclosing(supervisor.run()) as records:
        async for record in records:
            assert isinstance(record, Event)
            events.append(record)


def run(job: Counting, folder: Path, minimum: int = 1) -> list[tuple[str, str]]:
    events: list[Event] = []
    asyncio.run(asyncio.wait_for(events_of(job, folder, minimum, events), 120))
    return [(event.name, event.message) for event in events if event.name != "log"]


def test_ranks_run_on_every_node_until_they_are_done(tmp_path: Path) -> None:
    events = run(Counting(), tmp_path)
    assert events[-2:] == [("generation", "2 ranks on a, b"), ("done", "every rank is done")]


def test_a_node_that_fails_again_and_again_is_excluded_and_the_others_go_on(tmp_path: Path) -> None:
    events = run(Counting(fails_on="b"), tmp_path)
    failure = "rank 1 ended with 3"
    assert [event for event in events if event[0] != "node_up"] == [
        ("generation", "2 ranks on a, b"),
        ("restart", f"b: {failure}"),
        ("generation", "2 ranks on a, b"),
        ("restart", f"b: {failure}"),
        ("generation", "2 ranks on a, b"),
        ("restart", f"b: {failure}"),
        ("node_out", f"is excluded from now on: failed 3 times in a row, most recently: {failure}"),
        ("generation", "1 rank on a"),
        ("done", "every rank is done"),
    ]


class HalfReadyLink(AgentLink):
    """The link to an agent that answers at once; only node a becomes ready to start ranks."""

    async def keep(self, fleet: Fleet) -> None:  # noqa: ARG002  (of any link)
        self.inbox.put_nowait(NodeMessage(self.node, {"kind": "up"}))
        if self.node == "a":
            self.inbox.put_nowait(NodeMessage(self.node, {"kind": "listening", "port": 1}))
        await asyncio.sleep(600)

    def send(self, message: Message) -> None:
        if message["do"] == "meet":
            self.inbox.put_nowait(NodeMessage(self.node, {"kind": "meeting", "generation": 1, "port": 1}))


def test_a_node_that_is_not_ready_in_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a machine that takes minutes to load torch; it can return later."""
    monkeypatch.setattr(supervise, "AgentLink", HalfReadyLink)
    monkeypatch.setattr(supervise, "GATHER_SECONDS", 0.5)

    async def events_until_ranks_start() -> list[tuple[str, str]]:
        events: list[tuple[str, str]] = []
        async with supervised(Counting(), tmp_path) as supervisor, aclosing(supervisor.run()) as records:
            async for record in records:
                assert isinstance(record, Event)
                events.append((record.subject, record.message))
                if isinstance(record, GenerationStarted):
                    break
        return events

    assert asyncio.run(asyncio.wait_for(events_until_ranks_start(), 120))[-2:] == [
        ("b", "its agent answers, but was not ready to start ranks within 0.5 s"),
        ("generation 1", "1 rank on a"),
    ]


def test_giving_up_comes_with_the_advice_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(GaveUp, match=r"1 of 2 nodes are left and 2 are needed \(b: rank 1 ended with 3\)") as error:
        run(Counting(fails_on="b"), tmp_path, minimum=2)
    assert error.value.hint == "count again"


def test_a_refusal_ends_the_job_at_once_with_its_hint(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="the moon is not there") as error:
        run(Counting(refuses="the moon is not there"), tmp_path)
    assert error.value.hint == "ask for less"


def test_what_ranks_report_until_they_are_stopped_is_not_lost(tmp_path: Path) -> None:
    async def steps_after_the_first() -> list[str]:
        async with supervised(Counting(reports=True), tmp_path) as supervisor, aclosing(supervisor.run()) as records:
            async for record in records:
                if isinstance(record, Notice) and record.subject == "a/rank0":
                    break
            await asyncio.sleep(0.2)  # the ranks count on meanwhile
            async with aclosing(supervisor.stop()) as last_records:
                last = [record async for record in last_records if isinstance(record, Notice)]
            return [record.message for record in last if record.subject == "a/rank0"]

    steps = asyncio.run(asyncio.wait_for(steps_after_the_first(), 120))
    assert steps
    assert steps == ["2", "3", "4", "5"][: len(steps)]
