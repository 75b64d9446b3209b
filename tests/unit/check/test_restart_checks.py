"""What a check at the moment of a restart finds, and that it never stands in the way of the training."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.unit.model.test_pairs import cluster_of

from railbed.api.train import restarts
from railbed.api.train.restarts import RestartChecks
from railbed.check import changed
from railbed.check.book import restart_checks
from railbed.check.changed import Changes, LaunchState, changes_since
from railbed.errors import DeviceError
from railbed.fleet import Fleet, read_facts
from railbed.launch.supervise import GaveUp
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.probe import PairTest
from railbed.model.reading import Output
from railbed.model.record import Finding, Record, Verdict
from railbed.probes import ip_addr, ip_link
from railbed.transport.base import Command, Program, Target, targets_of

SITE = cluster_of([[0], [0], [0]])


class Nodes:
    """Nodes whose MTU and addresses can change, and that may fall silent."""

    def __init__(self) -> None:
        self.mtu = dict.fromkeys(SITE.nodes, 9000)
        self.extra: dict[str, str] = {}
        """Further addresses."""
        self.silent: set[str] = set()
        self.closed: list[str] = []

    @asynccontextmanager
    async def reach(self, target: Target) -> AsyncIterator[Node]:
        try:
            yield Node(self, target.name)
        finally:
            self.closed.append(target.name)


class Node:
    def __init__(self, nodes: Nodes, name: str) -> None:
        self._nodes = nodes
        self._name = name

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        for command in commands:
            if self._name in self._nodes.silent:
                await asyncio.Event().wait()
            text = self._print(command.key)
            yield Output(device=self._name, key=command.key, command="", stdout=text, exit=0, sent=1.0, received=1.1)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        raise NotImplementedError(command)

    def _print(self, probe: str) -> bytes:
        (port,) = SITE.nodes[self._name].ports
        extra = self._nodes.extra.get(self._name)
        addresses = [str(port.address), *([extra] if extra else [])]
        link: dict[str, Any] = {"ifname": port.netdev, "mtu": self._nodes.mtu[self._name], "operstate": "UP"}
        match probe:
            case "ip_link":
                return json.dumps([{**link, "flags": ["UP", "LOWER_UP"]}]).encode()
            case "ip_addr":
                info = [{"family": "inet", "local": address, "prefixlen": 16} for address in addresses]
                return json.dumps([{"ifname": port.netdev, "addr_info": info}]).encode()
        return b"?"


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
async def fleet(nodes: Nodes) -> AsyncIterator[Fleet]:
    async with Fleet(targets_of(SITE), nodes.reach) as fleet:
        yield fleet


async def launched(fleet: Fleet, site: Cluster = SITE) -> LaunchState:
    return LaunchState(site, await read_facts(fleet, site, [ip_link.PROBE, ip_addr.PROBE]))


async def test_what_is_worse_than_before_the_launch_is_reported_with_what_was_observed_then(
    nodes: Nodes, fleet: Fleet
) -> None:
    nodes.mtu["n2"] = 1500  # wrong all the time
    before = await launched(fleet)
    assert (await changes_since(before, SITE, fleet, 1)).findings == ()
    nodes.mtu["n1"] = 1400
    nodes.extra["n2"] = "10.0.0.1"
    changes = await changes_since(before, SITE, fleet, 7)
    assert changes.unread == {}
    assert {(finding.check, finding.subject): (finding.observed, finding.before) for finding in changes.findings} == {
        ("mtu", "n1/eth0"): ("MTU 1400", "MTU 9000"),
        ("address_unique", "n2/eth0"): (
            "has 10.0.0.1, the address of n0/eth0",
            "3 addresses, each on one node",
        ),
    }
    assert {finding.generation for finding in changes.findings} == {7}


async def test_without_a_check_before_the_launch_all_failures_are_reported(nodes: Nodes, fleet: Fleet) -> None:
    nodes.mtu["n1"] = 1400
    before = LaunchState(SITE, {})
    assert not before.is_known
    (finding,) = (await changes_since(before, SITE, fleet, 1)).findings
    assert (finding.subject, finding.before) == ("n1/eth0", None)


async def test_a_silent_node_is_a_value_and_keeps_its_connection(
    nodes: Nodes, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent, which uses the connection too, would end all ranks of a node that is only slow."""
    monkeypatch.setattr(changed, "NODE_SECONDS", 0.05)
    before = await launched(fleet)
    nodes.silent, nodes.mtu["n1"] = {"n0"}, 1400
    changes = await changes_since(before, SITE, fleet, 1)
    assert [finding.subject for finding in changes.findings] == ["n1/eth0"]
    assert changes.unread.keys() == {"n0"}
    assert nodes.closed == []


async def test_all_nodes_together_have_limited_time(
    nodes: Nodes, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, "ALL_SECONDS", 0.05)
    before = await launched(fleet)
    nodes.silent = set(SITE.nodes)
    changes = await changes_since(before, SITE, fleet, 1)
    assert (changes.findings, changes.unread.keys()) == ((), SITE.nodes.keys())


@pytest.mark.parametrize("name", [check.name for check in restart_checks()])
def test_rules_at_a_restart_read_nodes_in_one_round(name: str) -> None:
    (check,) = (check for check in restart_checks() if check.name == name)
    assert check.scope in ("node", "port", "RDMA port", "rail", "cluster")
    for probe in check.probes:
        assert probe.runs_on == "node"
        assert not isinstance(probe.command, PairTest)


def failed(generation: int, message: str = "no step for 4.5 s") -> events.GenerationFailed:
    return events.GenerationFailed(message=message, generation=generation)


def worse(generation: int) -> Finding:
    return Finding(
        check="mtu",
        subject="n1/eth0",
        verdict=Verdict.FAIL,
        expected="MTU 9000",
        observed="MTU 1400",
        why="",
        generation=generation,
        before="MTU 9000",
    )


class Checking:
    """Replaces the check itself; it takes until it is allowed to end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[int] = []
        self.may_end = asyncio.Event()
        self.fault: Exception | None = None
        self.changes: Changes | None = None
        monkeypatch.setattr(restarts, "changes_since", self.check)

    async def check(self, _before: LaunchState, _site: Cluster, _fleet: Fleet, generation: int) -> Changes:
        self.begun.append(generation)
        await self.may_end.wait()
        if self.fault:
            raise self.fault
        return self.changes or Changes(findings=(worse(generation),), unread={"n2": "no answer"}, seconds=0.5)

    async def beside(self, training: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
        async with Fleet((), Nodes().reach) as fleet:
            checks = RestartChecks(SITE, fleet, LaunchState(SITE, {}))
            async with aclosing(checks.beside(training)) as records:
                async for record in records:
                    yield record


@pytest.fixture
def checking(monkeypatch: pytest.MonkeyPatch) -> Checking:
    return Checking(monkeypatch)


async def records_of(*records: Record | Exception) -> AsyncGenerator[Record, None]:
    for record in records:
        await asyncio.sleep(0)
        if isinstance(record, Exception):
            raise record
        yield record


async def collect(records: AsyncGenerator[Record, None], received: list[Record]) -> None:
    async for record in records:
        received.append(record)  # noqa: PERF401  (those before an error count)


async def test_ranks_start_again_while_nodes_are_checked_and_the_last_check_is_completed(checking: Checking) -> None:
    started = events.GenerationStarted(generation=2)
    received: list[Record] = []
    async with aclosing(checking.beside(records_of(failed(1), started))) as records:
        async for record in records:
            received.append(record)
            if record is started:
                checking.may_end.set()
    assert received[1] is started
    finding, event = received[2:]
    assert isinstance(finding, Finding)
    assert isinstance(event, events.RestartChecked)
    assert (event.generation, event.failed, event.compared) == (1, 1, False)
    assert event.message == "probable cause: n1/eth0: MTU 1400, before the launch: MTU 9000 (mtu); n2 did not answer"


@pytest.mark.parametrize(
    ("unread", "message"),
    [
        ((), "the configuration was checked: nothing failed"),
        (("n1",), "the configuration was checked: nothing failed on the other nodes; n1 did not answer"),
        (("n0", "n1", "n2"), "the configuration could not be checked: n0, n1 and n2 did not answer"),
    ],
)
async def test_what_could_not_be_checked_is_not_called_unchanged(
    checking: Checking, unread: Sequence[str], message: str
) -> None:
    checking.changes = Changes(unread=dict.fromkeys(unread, "no answer"))
    checking.may_end.set()
    received = [record async for record in checking.beside(records_of(failed(1)))]
    assert [record.message for record in received if isinstance(record, events.RestartChecked)] == [message]


async def test_a_killed_rank_is_not_blamed_on_the_network_of_another_node(checking: Checking) -> None:
    checking.may_end.set()
    killed = events.GenerationFailed(subject="n0", message="n0: rank 0 was ended by SIGKILL", generation=1)
    received = [record async for record in checking.beside(records_of(killed))]
    (message,) = (record.message for record in received if isinstance(record, events.RestartChecked))
    assert message.startswith("since the launch had also changed: n1/eth0: MTU 1400, ")


async def test_a_training_that_gives_up_still_tells_why(checking: Checking) -> None:
    checking.may_end.set()
    received: list[Record] = []
    with pytest.raises(GaveUp):
        await collect(checking.beside(records_of(failed(1), GaveUp("1 of 3 nodes is left"))), received)
    assert [type(record) for record in received] == [events.GenerationFailed, Finding, events.RestartChecked]


async def test_restarts_in_quick_succession_are_checked_together(checking: Checking) -> None:
    received = []
    async for record in checking.beside(records_of(failed(1), failed(2), failed(3), events.Notice(message="later"))):
        received.append(record)
        if isinstance(record, events.Notice):
            checking.may_end.set()
    assert checking.begun[0] == 1
    assert checking.begun[-1] == 3
    assert len(checking.begun) == 2
    assert sum(isinstance(record, events.RestartChecked) for record in received) == 2


async def test_a_restart_to_use_a_node_again_is_not_checked(checking: Checking) -> None:
    assert [record async for record in checking.beside(records_of(failed(1, "n2 returned")))]
    assert checking.begun == []


async def test_a_fault_in_the_check_does_not_end_the_training(checking: Checking) -> None:
    checking.fault = DeviceError("unexpected")
    checking.may_end.set()
    received = [record async for record in checking.beside(records_of(failed(1), failed(2), failed(3)))]
    assert sum(isinstance(record, events.GenerationFailed) for record in received) == 3
    (notice,) = (record for record in received if isinstance(record, events.Notice))
    assert notice.message.startswith("checking ended because of a fault in railbed")


async def test_whoever_leaves_does_not_wait_for_a_check(checking: Checking) -> None:
    async with asyncio.timeout(60):
        async with aclosing(checking.beside(records_of(failed(1), events.Notice(message="later")))) as records:
            async for record in records:
                if isinstance(record, events.Notice):
                    break
    assert checking.begun == [1]
