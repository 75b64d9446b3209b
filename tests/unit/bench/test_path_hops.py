"""`check --prove path`: the counters on the path, through the emulated Nexus, and the verdict of each hop."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

import pytest
from tests.switchlab.nexus.support import LOSSLESS, run

from railbed.bench.path.hops import Direction, judge
from railbed.bench.path.movement import Movement
from railbed.bench.path.run import rounds
from railbed.model.cabling import cable_of
from railbed.model.cluster import Cluster, Node, Policy, Port, Rail, Switch, SwitchPort
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Output
from railbed.probes import ethtool_stats, infiniband_counters
from railbed.probes.ethtool_stats import Counters, DriverStatistics
from railbed.probes.infiniband_counters import PortCounters, RdmaCounters
from railbed.probes.nexus import pfc, queuing
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch as EmulatedSwitch
from switchlab.nexus.model.traffic import Packets
from switchlab.nexus.session import Session

SENT = 40_000_000
HOPS = ["path_mark", "path_class", "path_queue", "path_pfc", "path_delivery", "path_ecn", "path_cnp"]


def port(number: int) -> Port:
    return Port(netdev="eth1", rdma="mlx5_0", rail="r", address=ip_address(f"10.0.0.{number}"))


CLUSTER = Cluster(
    name="x",
    rails={"r": Rail(subnet=ip_network("10.0.0.0/24"))},
    nodes={"a": Node(host="a", ports=(port(1),)), "b": Node(host="b", ports=(port(2),))},
    switches={
        "nexus": Switch(
            host="nexus",
            ports=(
                SwitchPort(name="Ethernet1/1", node="a", netdev="eth1"),
                SwitchPort(name="eth1/2", node="b", netdev="eth1"),
            ),
        )
    },
)
UNPLUGGED = CLUSTER.model_copy(update={"switches": {}})


def known(probe: Probe[object] | Probe[DriverStatistics] | Probe[RdmaCounters], facts: object) -> Known[object]:
    output = Output(device="", key=probe.name, command="", stdout=b"", exit=0, sent=0.0, received=0.0)
    return Known(facts=facts, output=output)


@dataclass
class Card:
    """The counters of a node's port."""

    driver: dict[str, int] = field(default_factory=lambda: {"tx_prio3_bytes": 7, "rx_prio3_bytes": 7})
    port: dict[str, int] = field(default_factory=lambda: {"port_xmit_data": 7})
    hardware: dict[str, int] = field(
        default_factory=lambda: {"np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0, "rp_cnp_handled": 0}
    )

    def facts(self, name: str) -> DeviceFacts:
        statistics = DriverStatistics(interfaces={"eth1": Counters(values=dict(self.driver), texts={})})
        counters = RdmaCounters(
            ports={"mlx5_0/1": PortCounters(counters=dict(self.port), hw_counters=dict(self.hardware))}
        )
        readings = {
            "ethtool_stats": (known(ethtool_stats.PROBE, statistics),),
            "infiniband_counters": (known(infiniband_counters.PROBE, counters),),
        }
        return DeviceFacts(device=name, readings=readings)


@dataclass
class Fabric:
    """Two cards and a switch between them, whose counters are read as those of real ones are."""

    switch: EmulatedSwitch
    source: Card = field(default_factory=Card)
    target: Card = field(default_factory=Card)
    cluster: Cluster = CLUSTER

    def read(self) -> dict[str, DeviceFacts]:
        readings = {
            probe.name: (known(probe, probe.parse(run(Session(self.switch), command))),)
            for probe, command in (
                (queuing.PROBE, "show queuing interface"),
                (pfc.PROBE, "show interface priority-flow-control"),
            )
        }
        return {
            "a": self.source.facts("a"),
            "b": self.target.facts("b"),
            "nexus": DeviceFacts(device="nexus", readings=readings),
        }

    def send(self, *, dscp: int, priority: int | None = None) -> Movement:
        """Let a stream pass; the cards count it under its priority, the switch by its own configuration."""
        before = self.read()
        self.source.port["port_xmit_data"] += SENT // 4
        if priority is not None:
            for counters, way in ((self.source.driver, "tx"), (self.target.driver, "rx")):
                if f"{way}_prio{priority}_bytes" in counters:
                    counters[f"{way}_prio{priority}_bytes"] += SENT
        self.switch.carry("Ethernet1/1", "Ethernet1/2", Packets(dscp=dscp, bytes=SENT, packet_size=4000))
        return Movement(before=before, after=self.read())

    def verdicts(self, *, marked: Movement, unmarked: Movement) -> dict[str, tuple[str, str]]:
        direction = Direction(
            source="a",
            source_port=port(1),
            target="b",
            target_port=port(2),
            enters=cable_of(self.cluster, "a", port(1)),
            leaves=cable_of(self.cluster, "b", port(2)),
            policy=Policy(),
            marked=marked,
            unmarked=unmarked,
        )
        findings = list(judge(direction))
        assert {finding.subject for finding in findings} == {"a/eth1 > b"}
        assert all(finding.why and finding.expected and finding.essential for finding in findings)
        return {finding.check: (str(finding.verdict), finding.observed) for finding in findings}

    def prove(self) -> dict[str, tuple[str, str]]:
        unmarked = self.send(dscp=0, priority=0)
        return self.verdicts(marked=self.send(dscp=26, priority=3), unmarked=unmarked)


@pytest.fixture
def factory() -> EmulatedSwitch:
    switch = EmulatedSwitch(PLATFORMS["n9k"])
    for number in (1, 2):
        switch.set_link(f"Ethernet1/{number}", up=True)
    return switch


@pytest.fixture
def lossless(factory: EmulatedSwitch) -> EmulatedSwitch:
    assert apply_lines(factory, LOSSLESS.splitlines()) == []
    return factory


def test_a_lossless_path_passes_every_hop(lossless: EmulatedSwitch) -> None:
    verdicts = Fabric(lossless).prove()
    assert list(verdicts) == HOPS
    assert {check: verdict for check, (verdict, _) in verdicts.items()} == {
        **dict.fromkeys(HOPS[:5], "ok"),
        "path_ecn": "skipped",
        "path_cnp": "skipped",
    }
    assert verdicts["path_class"][1] == "queue 3 of nexus eth1/2 carried 40.0 MB of 40.0 MB"


def test_a_switch_in_factory_state_fails_at_the_class(factory: EmulatedSwitch) -> None:
    verdicts = Fabric(factory).prove()
    assert verdicts["path_mark"][0] == "ok"
    assert verdicts["path_class"][0] == "fail"
    assert verdicts["path_pfc"][0] == "fail"


def test_a_dscp_that_the_switch_does_not_know_uses_a_queue_that_drops(lossless: EmulatedSwitch) -> None:
    run(Session(lossless), "conf t", "class-map type qos match-any ROCE", "no match dscp 26", "match dscp 24")
    verdict, observed = Fabric(lossless).prove()["path_class"]
    assert verdict == "fail"
    assert observed.endswith("of 40.0 MB; queue 0, which drops, carried 40.0 MB")


def test_a_card_that_does_not_map_the_mark_fails_at_the_mark(lossless: EmulatedSwitch) -> None:
    fabric = Fabric(lossless)
    unmarked = fabric.send(dscp=0, priority=0)
    verdicts = fabric.verdicts(marked=fabric.send(dscp=26, priority=0), unmarked=unmarked)
    assert verdicts["path_mark"] == ("fail", "priority 3 sent 0 B of 40.0 MB")
    assert verdicts["path_delivery"][0] == "fail"
    assert verdicts["path_class"][0] == "ok"


def test_a_queue_that_everything_uses_proves_nothing(lossless: EmulatedSwitch) -> None:
    fabric = Fabric(lossless)
    unmarked = fabric.send(dscp=26, priority=3)
    verdicts = fabric.verdicts(marked=fabric.send(dscp=26, priority=3), unmarked=unmarked)
    assert {verdicts[check][0] for check in ("path_mark", "path_class", "path_delivery")} == {"warn"}


def test_a_drop_in_the_no_drop_queue_fails(lossless: EmulatedSwitch) -> None:
    fabric = Fabric(lossless)
    unmarked = fabric.send(dscp=0, priority=0)
    before = fabric.read()
    lossless.add("Ethernet1/2", "drop_packets", 5, group=3)
    marked = fabric.send(dscp=26, priority=3)
    verdicts = fabric.verdicts(marked=Movement(before=before, after=marked.after), unmarked=unmarked)
    assert verdicts["path_queue"] == ("fail", "queue 3 dropped 5")


def test_pfc_that_is_off_on_one_port_fails(lossless: EmulatedSwitch) -> None:
    run(Session(lossless), "conf t", "interface ethernet 1/1", "priority-flow-control mode off")
    assert Fabric(lossless).prove()["path_pfc"] == ("fail", "not on nexus Ethernet1/1")


@pytest.mark.parametrize(
    ("received", "sent", "handled", "ecn", "cnp"),
    [(40, 12, 12, "ok", "ok"), (40, 12, 0, "ok", "fail"), (0, 0, 0, "skipped", "skipped")],
)
def test_marks_and_notifications_are_followed(  # noqa: PLR0917  (a table)
    lossless: EmulatedSwitch, received: int, sent: int, handled: int, ecn: str, cnp: str
) -> None:
    fabric = Fabric(lossless)
    unmarked = fabric.send(dscp=0, priority=0)
    before = fabric.read()
    fabric.target.hardware["np_ecn_marked_roce_packets"] += received
    fabric.target.hardware["np_cnp_sent"] += sent
    fabric.source.hardware["rp_cnp_handled"] += handled
    marked = fabric.send(dscp=26, priority=3)
    verdicts = fabric.verdicts(marked=Movement(before=before, after=marked.after), unmarked=unmarked)
    assert (verdicts["path_ecn"][0], verdicts["path_cnp"][0]) == (ecn, cnp)


def test_marks_that_do_not_arrive_fail(lossless: EmulatedSwitch) -> None:
    fabric = Fabric(lossless)
    unmarked = fabric.send(dscp=0, priority=0)
    before = fabric.read()
    lossless.add("Ethernet1/2", "ecn_packets", 9, group=3)
    marked = fabric.send(dscp=26, priority=3)
    verdicts = fabric.verdicts(marked=Movement(before=before, after=marked.after), unmarked=unmarked)
    assert verdicts["path_ecn"] == ("fail", "the switch marked 9 packets, the receiver counted none")


def test_hops_without_counters_are_unknown_and_never_pass(lossless: EmulatedSwitch) -> None:
    soft = {"port": {"sent_pkts": 5}, "driver": {}, "hardware": {}}
    fabric = Fabric(lossless, source=Card(**soft), target=Card(**soft), cluster=UNPLUGGED)
    before = fabric.read()
    fabric.source.port["sent_pkts"] += 1000
    movement = Movement(before=before, after=fabric.read())
    verdicts = fabric.verdicts(marked=movement, unmarked=movement)
    assert {verdict for verdict, _ in verdicts.values()} == {"unknown"}
    assert verdicts["path_class"][1] == "the cluster file names no switch port for b/eth1"


def test_a_card_that_counts_nothing_ends_the_path_as_unknown(lossless: EmulatedSwitch) -> None:
    fabric = Fabric(lossless, source=Card(port={}, hardware={}))
    movement = Movement(before=fabric.read(), after=fabric.read())
    assert fabric.verdicts(marked=movement, unmarked=movement) == {
        "path_mark": ("unknown", "mlx5_0 does not count what it sends over RDMA")
    }


@pytest.mark.parametrize("count", range(2, 8))
def test_every_node_has_a_partner(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    together = rounds(nodes)
    assert {node for pairs in together for pair in pairs for node in pair} == set(nodes)
    for pairs in together:
        busy = [node for pair in pairs for node in pair]
        assert len(busy) == len(set(busy))
