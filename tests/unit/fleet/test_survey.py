"""Reading a cluster in phases: nodes test each other a few at a time, and tests that timed out are repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from tests.unit.model.test_pairs import cluster_of

from railbed.check.rules import mtu_path, reachable, rendezvous_reachable
from railbed.check.run import check
from railbed.errors import TimedOut
from railbed.fleet import Fleet, read_facts
from railbed.model.cluster import Cluster
from railbed.model.probe import PairTest
from railbed.model.reading import Known, Output
from railbed.model.record import Finding
from railbed.probes import memory, ping_mtu, rendezvous
from railbed.transport.base import Command, Program, Target, targets_of

OutputOf = Callable[[str, str, int, str], str]
"""What a node prints, from its name, the probe, how often that was asked before, and the command."""
survey_module = import_module("railbed.fleet.survey")
TESTS = ("ping_mtu", "rendezvous")
"""The probes that contact other nodes."""
RULES = (mtu_path.RULE, rendezvous_reachable.RULE, reachable.RULE)
LOAD = "==> load <==\n{load} 1.00 1.00 1/100 100\n2\n100.00 100.10\n"


class FakeNodes:
    """Nodes that print what a function returns, and count how many test others at the same time."""

    def __init__(self, output_of: OutputOf, *, silent: dict[str, int] | None = None) -> None:
        self._output_of = output_of
        self._silent = Counter(silent or {})
        """How often a node does not let us in."""
        self.calls: Counter[tuple[str, str]] = Counter()
        self.commands: list[Command] = []
        self.testing = 0
        self.most_testing = 0

    @asynccontextmanager
    async def reach(self, target: Target) -> AsyncIterator[FakeNode]:
        if self._silent[target.name] > 0:
            self._silent[target.name] -= 1
            raise TimedOut("no answer within 10 s")
        yield FakeNode(self, target.name)

    async def run(self, node: str, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        is_testing = any(command.key in TESTS for command in commands)
        self.testing += is_testing
        self.most_testing = max(self.most_testing, self.testing)
        try:
            for command in commands:
                await asyncio.sleep(0)
                self.commands.append(command)
                text = self._output_of(node, command.key, self.calls[node, command.key], command.script)
                self.calls[node, command.key] += 1
                yield Output(
                    device=node, key=command.key, command="", stdout=text.encode(), exit=0, sent=1.0, received=1.1
                )
        finally:
            self.testing -= is_testing


class FakeNode:
    def __init__(self, nodes: FakeNodes, name: str) -> None:
        self._nodes = nodes
        self._name = name

    def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        return self._nodes.run(self._name, commands)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        raise NotImplementedError(command)


def answers(
    cluster: Cluster, node: str, key: str, script: str, *, late: bool = False, load: float | None = None
) -> str:
    """Return what a node prints for the peers in a command, all well or all timed out."""
    text = LOAD.format(load=f"{load:.2f}") if load is not None else ""
    for port in cluster.nodes[node].ports:
        for peer, other in cluster.peers(node, port):
            if f" {other.address} " not in script:
                continue
            if key == "rendezvous":
                text += f"==> {peer} {other.address} 29500 <==\n{'timed out' if late else 'x: Connection refused'}\n"
                continue
            for size in (84, 9000):
                ending = "1 packets transmitted, 0 received" if late else "64 bytes from x: icmp_seq=1 time=0.1 ms"
                text += f"==> {port.netdev} {other.address} {size} <==\n{ending}\n"
    return text


async def findings(cluster: Cluster, nodes: FakeNodes, **options: Any) -> dict[tuple[str, str], Finding]:
    async with Fleet(targets_of(cluster), nodes.reach) as fleet:
        records = [record async for record in check(cluster, fleet, RULES, **options)]
    return {(record.check, record.subject): record for record in records if isinstance(record, Finding)}


def verdicts(by_rule: dict[tuple[str, str], Finding]) -> set[str]:
    return {value.verdict for value in by_rule.values()}


async def test_few_nodes_test_others_at_the_same_time() -> None:
    cluster = cluster_of([[0]] * 64)
    nodes = FakeNodes(lambda node, key, _, script: answers(cluster, node, key, script))
    by_rule = await findings(cluster, nodes)
    assert verdicts(by_rule) == {"ok"}
    assert nodes.most_testing <= survey_module.TESTING_AT_ONCE
    assert sum(command.script.count("\nboth ") + command.script.count("& both ") for command in nodes.commands) <= 256


@pytest.mark.parametrize("late_at_first", ["n3", ""], ids=["one node", "all nodes"])
async def test_what_timed_out_at_first_and_not_again_is_well(late_at_first: str) -> None:
    cluster = cluster_of([[0]] * 12)

    def output_of(node: str, key: str, before: int, script: str) -> str:
        late = before == 0 and late_at_first in ("", node)
        return answers(cluster, node, key, script, late=late, load=1.0 if before else None)

    nodes = FakeNodes(output_of)
    assert verdicts(await findings(cluster, nodes)) == {"ok"}
    again = {node for (node, _), times in nodes.calls.items() if times == 2}
    assert again == ({late_at_first} if late_at_first else set(cluster.nodes))


async def test_what_timed_out_twice_fails_and_on_a_busy_node_is_unknown() -> None:
    cluster = cluster_of([[0]] * 4)

    def output_of(node: str, key: str, before: int, script: str) -> str:
        load = {"n1": 2.0, "n2": 80.0}.get(node) if before else None
        return answers(cluster, node, key, script, late=node in ("n1", "n2"), load=load)

    by_rule = await findings(cluster, FakeNodes(output_of))
    assert by_rule["mtu_path", "n1/eth0"].verdict == "fail"
    assert by_rule["rendezvous_reachable", "n1"].verdict == "fail"
    assert by_rule["mtu_path", "n2/eth0"].verdict == "unknown"
    assert "load 80 on 2 CPUs" in by_rule["rendezvous_reachable", "n2"].observed
    assert by_rule["mtu_path", "n0/eth0"].verdict == "ok"


@pytest.mark.parametrize(("cleared", "verdict"), [(True, "unknown"), (False, "fail")])
async def test_what_there_is_not_a_time_to_test_again(
    monkeypatch: pytest.MonkeyPatch, cleared: bool, verdict: str
) -> None:
    """If a second test proved a first one wrong, the others may be wrong, too; if none did, they stand."""
    monkeypatch.setattr(survey_module, "AGAIN_SECONDS", -1.0)
    monkeypatch.setattr(survey_module, "AGAIN_AT_ONCE", 1)
    cluster = cluster_of([[0]] * 6)

    def output_of(node: str, key: str, before: int, script: str) -> str:
        late = before == 0 or not cleared
        return answers(cluster, node, key, script, late=late, load=1.0 if before else None)

    by_rule = await findings(cluster, FakeNodes(output_of))
    judged = Counter(value.verdict for value in by_rule.values() if value.check == "mtu_path")
    assert judged == ({"ok": 1, verdict: 5} if cleared else {verdict: 6})


async def test_a_node_that_did_not_let_us_in_at_first_is_asked_again() -> None:
    cluster = cluster_of([[0]] * 5)
    nodes = FakeNodes(lambda node, key, _, script: answers(cluster, node, key, script), silent={"n1": 1, "n2": 2})
    by_rule = await findings(cluster, nodes)
    assert {name for (rule, name), finding in by_rule.items() if rule == "reachable" and finding.verdict != "ok"} == {
        "n2"
    }
    assert by_rule["reachable", "n2"].verdict == "fail"


async def test_all_pairs_on_request() -> None:
    cluster = cluster_of([[0]] * 12)
    nodes = FakeNodes(lambda node, key, _, script: answers(cluster, node, key, script))
    by_rule = await findings(cluster, nodes, every_pair=True)
    assert by_rule["mtu_path", "n0/eth0"].expected == "9000 bytes to 11 peers"
    assert "of 11 peers" in by_rule["rendezvous_reachable", "n5"].expected


def test_every_probe_that_contacts_other_nodes_is_paced() -> None:
    for probe in (ping_mtu.PROBE, rendezvous.PROBE):
        assert isinstance(probe.command, PairTest)


@pytest.mark.parametrize(("timeout", "seconds"), [(10.0, 5.0), (60.0, 10.0), (300.0, 50.0)])
async def test_more_time_for_a_device_is_more_time_for_its_commands(timeout: float, seconds: float) -> None:
    """An emulated machine that is busy needs longer than ten seconds for what takes a real one a tenth of one."""
    nodes = FakeNodes(lambda *_: "")
    async with Fleet([Target(name="n1", host="h")], nodes.reach, timeout=timeout) as fleet:
        async for _ in fleet.run({"n1": [Command(key="hello", script="echo hello", timeout=10.0)]}):
            pass
    assert [command.timeout for command in nodes.commands] == [seconds]


async def test_what_is_known_of_a_node_is_not_read_again() -> None:
    cluster = cluster_of([[0]] * 3)
    nodes = FakeNodes(lambda *_: "MemTotal: 1000 kB\nMemAvailable: 600 kB\n", silent={"n2": 9})
    async with Fleet(targets_of(cluster), nodes.reach) as fleet:
        known = await read_facts(fleet, cluster, [memory.PROBE], only=["n1"])
        facts = await read_facts(fleet, cluster, [memory.PROBE], known=known)
    assert list(facts) == ["n0", "n1", "n2"]
    assert facts["n1"] is known["n1"]
    assert facts["n2"].failure
    assert nodes.calls == Counter({("n0", "memory"): 1, ("n1", "memory"): 1})


async def test_equal_outputs_are_parsed_once() -> None:
    cluster = cluster_of([[0]] * 3)
    parsed: list[str] = []

    def parse(text: str) -> memory.Memory:
        parsed.append(text)
        return memory.parse(text)

    probe = replace(memory.PROBE, parse=parse)
    nodes = FakeNodes(lambda node, *_: f"MemTotal: {2 if node == 'n1' else 1} kB\n")
    async with Fleet(targets_of(cluster), nodes.reach) as fleet:
        facts = await read_facts(fleet, cluster, [probe])
    readings = [reading for known in facts.values() if isinstance(reading := known.read(probe), Known)]
    assert [reading.output.device for reading in readings] == ["n0", "n1", "n2"]
    assert [reading.facts.total for reading in readings] == [1024, 2048, 1024]
    assert len(parsed) == 2
