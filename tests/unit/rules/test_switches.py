"""Switches are devices: a probe or rule for them needs no other code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from railbed import clusterfile
from railbed.check.book import CHECK_BOOK, probes_needed
from railbed.check.rules import reachable
from railbed.check.run import check
from railbed.discover.observation import PROBES
from railbed.discover.run import discover
from railbed.errors import ClusterFileError, ParseError, Unreachable
from railbed.fleet import Fleet, survey
from railbed.model.cluster import Cluster, Node, Port, Rail, Switch, SwitchPort
from railbed.model.events import ClusterBuilt
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Output
from railbed.model.record import Event, Finding
from railbed.probes import hostname
from railbed.rules.engine import judge
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import CableView, Site, SwitchPortView, SwitchView
from railbed.transport.base import Command, Connector, Program, Target, Transport, targets_of
from railbed.transport.connect import live_connector
from railbed.transport.record import OutputRecorder, recording_connector
from railbed.transport.replay import replay_connector

DOC = "T.\n\nWhat\n----\nw\n\nWhy\n---\ny\n\nFix\n---\nf\n\nSource\n------\ns\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMtus:
    mtus: dict[str, int]


def parse_mtus(text: str) -> PortMtus:
    try:
        return PortMtus(mtus={name: int(mtu) for name, mtu in (line.split() for line in text.splitlines())})
    except ValueError as error:
        raise ParseError("not a table of MTUs", line=text[:80]) from error


SWITCH_MTU: Probe[PortMtus] = Probe(
    name="switch_mtu",
    title="MTU of switch ports",
    command="show mtu | json\nshow mtu",
    parse=parse_mtus,
    facts=PortMtus,
    runs_on="switch",
)
NODE_MTU: Probe[PortMtus] = replace(SWITCH_MTU, name="node_mtu", command="cat mtu", runs_on="node")


def judge_switch(switch: SwitchView) -> Iterator[Judgement]:
    mtus = switch.read(SWITCH_MTU).mtus
    yield ok(expected="MTUs", observed=f"{len(mtus)} ports")


def judge_switch_port(port: SwitchPortView) -> Iterator[Judgement]:
    mtu, expected = port.read(SWITCH_MTU).mtus[port.port.name], port.policy.switch_mtu
    yield (ok if mtu == expected else fail)(expected=f"MTU {expected}", observed=f"MTU {mtu}")


def judge_cable(cable: CableView) -> Iterator[Judgement]:
    own = cable.port.read(NODE_MTU).mtus[cable.port.port.netdev]
    other = cable.switch_port.read(SWITCH_MTU).mtus[cable.switch_port.port.name]
    yield (ok if own <= other else fail)(expected=f"at least {own}", observed=str(other))


OF_SWITCH: Rule[Any] = Rule(
    name="of_switch", title="t", scope="switch", needs=(SWITCH_MTU,), judge=judge_switch, doc=DOC
)
OF_PORT: Rule[Any] = Rule(
    name="of_port", title="t", scope="switch port", needs=(SWITCH_MTU,), judge=judge_switch_port, doc=DOC
)
OF_CABLE: Rule[Any] = Rule(
    name="of_cable", title="t", scope="cable", needs=(NODE_MTU, SWITCH_MTU), judge=judge_cable, doc=DOC
)
CHECKS = (OF_SWITCH, OF_PORT, OF_CABLE)

PRINTED = {
    ("a", "node_mtu"): "eth1 9000\n",
    ("b", "node_mtu"): "eth1 9000\n",
    ("s1", "switch_mtu"): "Ethernet1/1 9216\nEthernet1/2 1500\n",
}


def cluster(host: str | None = "10.0.0.9") -> Cluster:
    ports = {
        name: Port(netdev="eth1", rail="r", address=ip_address(f"10.1.0.{number}"))
        for number, name in enumerate("ab", 1)
    }
    cables = tuple(
        SwitchPort(name=f"Ethernet1/{number}", node=name, netdev="eth1") for number, name in enumerate("ab", 1)
    )
    return Cluster(
        name="x",
        rails={"r": Rail(subnet=ip_network("10.1.0.0/24"))},
        nodes={name: Node(host=f"10.0.0.{name}", ports=(port,)) for name, port in ports.items()},
        switches={"s1": Switch(host=host, ports=cables)},
    )


class Devices:
    """A connector to devices that print the entries of a table; it records connections and commands."""

    def __init__(self, printed: dict[tuple[str, str], str], dead: str = "") -> None:
        self.printed = printed
        self.dead = dead
        self.targets: list[Target] = []
        self.ran: list[tuple[str, str]] = []

    @asynccontextmanager
    async def connect(self, target: Target) -> AsyncIterator[Transport]:
        self.targets.append(target)
        if target.name == self.dead:
            raise Unreachable("no answer", hint="look at it")
        yield _Printing(self, target.name)


class _Printing:
    def __init__(self, devices: Devices, name: str) -> None:
        self._devices = devices
        self._name = name

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        for command in commands:
            self._devices.ran.append((self._name, command.key))
            text = self._devices.printed[self._name, command.key].encode()
            yield Output(
                device=self._name, key=command.key, command=command.script, stdout=text, exit=0, sent=1.0, received=1.0
            )

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        raise NotImplementedError(command)


async def read(connect: Connector, wanted: Cluster, *probes: Probe[Any]) -> dict[str, DeviceFacts]:
    async with Fleet(targets_of(wanted), connect) as fleet:
        return {facts.device: facts async for facts in survey(fleet, wanted, probes)}


def shown(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(finding.check, finding.subject, finding.verdict) for finding in findings]


JUDGED = [
    ("of_switch", "s1", "ok"),
    ("of_port", "s1/Ethernet1/1", "ok"),
    ("of_port", "s1/Ethernet1/2", "fail"),
    ("of_cable", "a/eth1", "ok"),
    ("of_cable", "b/eth1", "fail"),
]


async def test_a_probe_is_read_on_the_devices_it_runs_on_and_rules_judge_them() -> None:
    devices = Devices(PRINTED)
    facts = await read(devices.connect, cluster(), NODE_MTU, SWITCH_MTU)
    assert sorted(devices.ran) == sorted(PRINTED)
    assert shown(list(judge(CHECK_BOOK, Site(cluster(), facts), CHECKS))) == JUDGED


async def test_a_switch_is_recorded_and_replayed_like_a_node(tmp_path: Path) -> None:
    connect = recording_connector(Devices(PRINTED).connect, OutputRecorder(tmp_path))
    await read(connect, cluster(), NODE_MTU, SWITCH_MTU)
    facts = await read(replay_connector(tmp_path), cluster(host=None), NODE_MTU, SWITCH_MTU)
    assert shown(list(judge(CHECK_BOOK, Site(cluster(), facts), CHECKS))) == JUDGED


async def test_nothing_connects_to_a_switch_that_no_probe_reads() -> None:
    devices = Devices(PRINTED)
    facts = await read(devices.connect, cluster(), NODE_MTU)
    assert sorted(target.name for target in devices.targets) == ["a", "b"]
    site = Site(cluster(), facts)
    assert [finding.subject for finding in judge(CHECK_BOOK, site, [reachable.RULE])] == ["a", "b"]
    assert list(judge(CHECK_BOOK, site, CHECKS)) == []


async def records_of(connect: Connector, wanted: Cluster, *checks: Rule[Any]) -> tuple[list[str], list[Finding]]:
    async with Fleet(targets_of(wanted), connect) as fleet:
        records = [record async for record in check(wanted, fleet, checks)]
    messages = [record.message for record in records if isinstance(record, Event) and record.name == "reading"]
    return messages, [record for record in records if isinstance(record, Finding)]


async def test_a_switch_that_does_not_answer_is_one_finding() -> None:
    messages, findings = await records_of(Devices(PRINTED, dead="s1").connect, cluster(), *CHECKS)
    assert messages == ["reading 2 nodes and 1 switch"]
    assert [(*row, finding.observed) for row, finding in zip(shown(findings), findings, strict=True)] == [
        ("reachable", "s1", "unknown", "no answer")
    ]


async def test_a_switch_without_a_host_is_one_finding() -> None:
    async with live_connector() as live:

        def connect(target: Target) -> AbstractAsyncContextManager[Transport]:
            return live(target) if target.kind == "switch" else Devices(PRINTED).connect(target)

        _, findings = await records_of(connect, cluster(host=None), *CHECKS)
    (finding,) = findings
    assert shown([finding]) == [("reachable", "s1", "skipped")]
    assert finding.observed == "the cluster file gives no host for it"


async def test_unknown_facts_of_a_switch_are_findings_about_its_ports() -> None:
    _, findings = await records_of(Devices({**PRINTED, ("s1", "switch_mtu"): "garbage"}).connect, cluster(), *CHECKS)
    assert shown(findings) == [(check, subject, "unknown") for check, subject, _ in JUDGED]


LINKS = '[{"ifname":"eth1","mtu":9000,"operstate":"UP","flags":["UP","LOWER_UP"],"address":"0c:42:a1:aa:00:0%s"}]'
ADDRESSES = '[{"ifname":"eth1","addr_info":[{"family":"inet","local":"10.1.0.%s","prefixlen":24,"scope":"global"}]}]'
NEIGHBOUR = "Chassis id: 0c42.a1aa.000%s\nPort id: 0c42.a1aa.000%s\nLocal Port id: Eth1/%s\n"
TABLE = "VLAN MAC Address Type age Secure NTFY Ports\n" + "* 1 0c42.a1aa.000%s dynamic 0 F F Eth1/%s\n" * 2


@pytest.mark.parametrize(
    ("neighbours", "table", "ports"),
    [
        (NEIGHBOUR % (1, 1, 7) + NEIGHBOUR % (2, 2, 8), TABLE % (1, 9, 2, 9), ["Ethernet1/7", "Ethernet1/8"]),
        ("Total entries displayed: 0\n", TABLE % (1, 5, 2, 6), ["Ethernet1/5", "Ethernet1/6"]),
        ("Total entries displayed: 0\n", TABLE % (1, 9, 2, 9), ["Ethernet1/1", "Ethernet1/2"]),
        ("", "not a table", ["Ethernet1/1", "Ethernet1/2"]),
    ],
    ids=["LLDP", "MAC table", "uplink", "unread"],
)
async def test_discover_takes_cables_from_what_the_switch_sees(neighbours: str, table: str, ports: list[str]) -> None:
    printed = {("s1", "nexus_lldp"): neighbours, ("s1", "nexus_mac_table"): table}
    for number, node in enumerate("ab", 1):
        answers = {"hostname": f"{node}\n", "ip_link": LINKS % number, "ip_addr": ADDRESSES % number}
        printed |= {(node, probe.name): answers.get(probe.name, "") for probe in PROBES}
    async with Fleet(targets_of(cluster()), Devices(printed).connect) as fleet:
        records = [record async for record in discover(cluster(), fleet, name="x", existing=cluster())]
    (built,) = [record for record in records if isinstance(record, ClusterBuilt)]
    assert [port["name"] for port in built.cluster["switches"]["s1"]["ports"]] == ports


async def test_discover_reports_a_switch_that_does_not_answer() -> None:
    printed = {(node, probe.name): f"{node}\n" if probe is hostname.PROBE else "" for node in "ab" for probe in PROBES}
    async with Fleet(targets_of(cluster()), Devices(printed, dead="s1").connect) as fleet:
        records = [record async for record in discover(cluster(), fleet, name="x", existing=cluster())]
    notices = [record.message for record in records if isinstance(record, Event) and record.name == "notice"]
    assert any("10.0.0.9: no answer (look at it)" in text for text in notices)


def test_rules_about_switches_read_nothing_where_there_are_none() -> None:
    without = cluster().model_copy(update={"switches": {}})
    assert list(probes_needed(CHECKS, without)) == []
    assert {probe.name for probe in probes_needed(CHECKS, cluster())} == {"switch_mtu", "node_mtu"}


@pytest.mark.parametrize(
    ("target", "access"),
    [
        (Target(name="n", host="local"), "local"),
        (Target(name="n", host="10.0.0.1"), "ssh"),
        (Target(name="s", host="10.0.0.9", kind="switch"), "ssh-cli"),
        (Target(name="s", host="", kind="switch"), "none"),
    ],
)
def test_a_target_names_how_it_is_reached(target: Target, access: str) -> None:
    assert target.access == access


def test_the_login_of_a_switch_is_that_of_the_cluster_where_it_names_none() -> None:
    text = "name: x\nlogin: {user: me}\nnodes: {a: {host: h}}\nswitches: {s1: {host: s, login: {port: 830}}}\n"
    (_, switch) = targets_of(clusterfile.loads(text, name="f"))
    assert (switch.kind, switch.login.user, switch.login.port) == ("switch", "me", 830)


def test_a_switch_cannot_have_the_name_of_a_node() -> None:
    with pytest.raises(ClusterFileError, match=r"switches\.a: a is the name of a node already"):
        clusterfile.loads("name: x\nnodes: {a: {host: h}}\nswitches: {a: {host: s}}\n", name="f")
