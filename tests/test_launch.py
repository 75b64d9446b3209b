"""Launching on a lab: ranks on every node, failures detected and reported, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.fleet import Fleet
from railbed.launch.fabric import NodeFabric
from railbed.launch.files.ship import parcel
from railbed.launch.job import RankStart
from railbed.launch.messages import Message
from railbed.launch.placement import Deployment, Placement
from railbed.launch.supervise import RETURN_SECONDS, GaveUp, StartRefused, Supervisor
from railbed.model.record import Event, Record
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from tests.support.events import event
from tests.support.labs import RunningLab
from tests.support.ranks import wait_for

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
RANK = Path(__file__).parent / "support" / "counting_rank.py"


@pytest.fixture(scope="module")
def lab(netns_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return netns_lab.seen_from(tmp_path_factory.mktemp("launch"), nodes=3)


@pytest.fixture
def healed(lab: RunningLab) -> Iterator[RunningLab]:
    """The lab, without faults and with every node up after the test."""
    yield lab
    lab.heal()


class Counting:
    """A job of ranks that count; it continues from the lowest step that was reached."""

    preload = ()
    advice = "count again"

    def __init__(
        self,
        steps: int,
        pace: float = 0.1,
        *,
        refuses: str = "",
        stops: int | None = None,
        interference: str = "",
        interfered: int = 1,
    ) -> None:
        self._steps = steps
        self._pace = pace
        self._refuses = refuses
        self._stops = stops
        """The rank that is stopped in the first generation, before it sends anything."""
        self._interference = interference
        self._interfered = interfered
        """How many generations somebody from outside gets at."""
        self.reached: dict[int, int] = {}

    def generation(
        self,
        number: int,
        placements: Sequence[Placement],
        port: int,  # noqa: ARG002  (its ranks do not meet)
    ) -> Mapping[str, Sequence[RankStart]]:
        begin = min(self.reached.values(), default=0)
        self.reached = {}
        plan: dict[str, list[RankStart]] = {}
        nodes = [placement.node for placement in placements for _ in range(placement.ranks)]
        for rank, node in enumerate(nodes):
            job: dict[str, object] = {"rank": rank, "world": len(nodes), "from": begin, "to": self._steps}
            job |= {"pace": self._pace, "refuses": self._refuses, "stops": number == 1 and rank == self._stops}
            job["interference"] = self._interference if number <= self._interfered and rank == 2 else ""
            start = RankStart(rank=rank, command=["python3", str(RANK), "{job}", "{messages}"], job=json.dumps(job))
            plan.setdefault(node, []).append(start)
        return plan

    def receive(self, node: str, rank: int, message: Message) -> Sequence[Record]:
        self.reached[rank] = max(self.reached.get(rank, 0), message["step"])
        return [event(name="checkpoint", subject=node, data={"rank": rank, "step": message["step"]})]

    @property
    def may_regroup(self) -> bool:
        return True


async def launch(
    lab: RunningLab, job: Counting, faults: Mapping[int, Sequence[str]], until: str, return_seconds: float
) -> list[Event]:
    """Run a job, inject faults when their step is reached, and leave it when a given message arrives."""
    events: list[Event] = []
    pending = dict(faults)
    cluster = clusterfile.load(lab.cluster)
    async with live_connector() as connect, Fleet(targets_of(cluster), connect, timeout=20.0) as fleet:
        deployment = Deployment(cluster, dict.fromkeys(cluster.nodes, 2), folder=f"runs/{time.monotonic_ns()}")
        shipped = await deployment.ship(fleet)
        assert set(shipped.failed) <= {"node1"}
        # A node that is down takes part all the same: the supervisor has to notice.
        shipped.bases.update(dict.fromkeys(shipped.failed, next(iter(shipped.bases.values()))))
        placements = deployment.placements({name: NodeFabric() for name in cluster.nodes})
        supervisor = Supervisor(fleet, job, placements, minimum=2, return_seconds=return_seconds)
        async with aclosing(supervisor.run()) as records:
            async for record in records:
                assert isinstance(record, Event)
                events.append(record)
                step = max(job.reached.values(), default=0)
                for at in [at for at in pending if step >= at]:
                    await asyncio.to_thread(lab.fault, *pending.pop(at))
                if record.message == until and not pending:
                    break
    return events


def run(
    lab: RunningLab,
    job: Counting,
    faults: Mapping[int, Sequence[str]] | None = None,
    until: str = "every rank is done",
    return_seconds: float = RETURN_SECONDS,
) -> list[Event]:
    return asyncio.run(asyncio.wait_for(launch(lab, job, faults or {}, until, return_seconds), 180))


def named(events: Sequence[Event], name: str) -> list[Event]:
    return [event for event in events if event.name == name]


def ranks_left(lab: RunningLab) -> str:
    return lab.run_inside("node1", "ps ax -o args | grep -c '[c]ounting_rank\\|[l]aunch.node.agent'").out.strip()


def test_ranks_run_on_every_node_and_end(lab: RunningLab) -> None:
    events = run(lab, Counting(10))
    assert named(events, "done")
    assert {event.subject for event in named(events, "checkpoint")} == {"node1", "node2", "node3"}
    assert {event.data["rank"] for event in named(events, "checkpoint")} == set(range(6))
    assert any("rank 5 of 6 begins at 0" in event.message for event in named(events, "log"))
    wait_for(lambda: ranks_left(lab) == "0")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param(["kill", "node2"], "no message for 4 s", marks=pytest.mark.soak),  # in test_train_faults.py too
        (["freeze", "node2"], "no message for 4 s"),
    ],
)
def test_a_node_that_goes_silent_is_noticed_and_the_rest_goes_on(
    healed: RunningLab, fault: list[str], why: str
) -> None:
    job = Counting(90)
    events = run(healed, job, {20: fault})
    (restart, *_) = named(events, "restart")
    assert (restart.subject, why in restart.message) == ("node2", True), restart
    generations = [event.data["nodes"] for event in named(events, "generation")]
    assert generations[:2] == [["node1", "node2", "node3"], ["node1", "node3"]]
    assert named(events, "done")
    begun = [event.message for event in named(events, "log") if "begins at" in event.message]
    assert not any("begins at 0" in text for text in begun[6:])


@pytest.mark.soak  # test_train_faults.py has it
def test_a_node_that_comes_back_is_taken_back(healed: RunningLab) -> None:
    faults = {20: ["kill", "node3"], 75: ["heal", "node3"]}
    events = run(healed, Counting(10_000), faults, until="6 ranks on node1, node2, node3")
    assert [event.data["nodes"] for event in named(events, "generation")] == [
        ["node1", "node2", "node3"],
        ["node1", "node2"],
        ["node1", "node2", "node3"],
    ]
    assert any("node3 returned" in event.message for event in named(events, "restart"))


def test_too_few_nodes_end_the_job_with_a_sentence(healed: RunningLab) -> None:
    healed.fault("kill", "node1")
    with pytest.raises(GaveUp, match=r"1 of 3 nodes are left and 2 are needed"):
        run(healed, Counting(200), {20: ["kill", "node2"]}, return_seconds=1.0)


def test_parcels_are_named_by_their_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    first = parcel("files", {"a": tmp_path / "a"})
    (tmp_path / "a").touch()
    assert parcel("files", {"a": tmp_path / "a"}) == first
    (tmp_path / "a").write_text("two")
    assert parcel("files", {"a": tmp_path / "a"}).name != first.name


def test_a_rank_that_is_stopped_before_its_first_word_is_noticed_and_its_node_is_blamed(lab: RunningLab) -> None:
    events = run(lab, Counting(60, stops=2))
    (restart, *_) = named(events, "restart")
    assert (restart.subject, restart.message) == ("node2", "node2: rank 2 is stopped (SIGSTOP)")
    assert named(events, "done")


def test_interference_from_outside_is_not_a_fault_of_a_node(lab: RunningLab) -> None:
    events = run(lab, Counting(30, interference="somebody answers as rank 0", interfered=4))
    assert {(event.subject, event.message) for event in named(events, "restart")} == {
        ("", "the ranks were interfered with: somebody answers as rank 0")
    }
    assert [event.data["nodes"] for event in named(events, "generation")] == [["node1", "node2", "node3"]] * 5
    assert not named(events, "node_out")


def test_interference_that_does_not_end_ends_the_job_with_a_sentence(
    lab: RunningLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railbed.launch.supervise.FAILED_STARTS", 2)
    with pytest.raises(GaveUp, match="2 starts in a row failed, most recently because the ranks were interfered"):
        run(lab, Counting(30, interference="somebody answers as rank 0", interfered=99))


def test_what_cannot_be_is_reported_at_once_and_not_tried_again(lab: RunningLab) -> None:
    job = Counting(20, refuses="the moon is not there")
    with pytest.raises(StartRefused, match="the moon is not there") as refused:
        run(lab, job)
    assert refused.value.hint == "ask for less"
    wait_for(lambda: ranks_left(lab) == "0")
