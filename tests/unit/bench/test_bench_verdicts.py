"""From a site and numbers to findings: the limiting part, the suspect, what is left out and why."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import pytest

from railbed.bench.baseline import Baseline, make_baseline
from railbed.bench.book import BENCH_BOOK, BenchView
from railbed.bench.outliers import PathLimit
from railbed.bench.run import JUDGED
from railbed.bench.schedule import make_schedule
from railbed.bench.site import BenchSite, PortSite, site_of
from railbed.bench.suite import Suite
from railbed.bench.tool import End
from railbed.clusterfile import loads
from railbed.model.reading import DeviceFacts, DeviceFailure, Known, Output
from railbed.model.record import Finding, Measurement, Verdict
from railbed.parsing.gids import Gid
from railbed.probes import ethtool, infiniband, ip_link, listening, pcie
from railbed.rules.engine import judge

CLUSTER = loads(
    """
name: c
rails: {r0: {subnet: 10.0.0.0/24}, p2p: {point_to_point: true}}
nodes:
  a:
    host: 1.1.1.1
    ports: [{netdev: e0, rdma: m0, rail: r0, address: 10.0.0.1}, {netdev: e1, rail: p2p, address: 10.9.0.1}]
  b:
    host: 1.1.1.2
    ports: [{netdev: e0, rdma: m0, rail: r0, address: 10.0.0.2}, {netdev: e1, rail: p2p, address: 10.9.0.2}]
  c: {host: 1.1.1.3, ports: [{netdev: e0, rdma: m0, rail: r0, address: 10.0.0.3}]}
  d: {host: 1.1.1.4, ports: [{netdev: e0, rail: r0, address: 10.0.0.4}]}
switches:
  leaf1: {host: 1.1.1.9, ports: [{name: Ethernet1/3, node: c, netdev: e0}]}
""",
    name="cluster.yaml",
)
OUTPUT = Output(device="", key="", command="", stdout=b"", exit=0, sent=0.0, received=0.0)


def port(node: str, *, gbps: float = 100, pci: float = 126, driver: str = "mlx5_core", rail: str = "r0") -> PortSite:
    netdev = "e0" if rail == "r0" else "e1"
    limits = (
        PathLimit(part=f"the link of {node}/{netdev}", gbps=gbps),
        PathLimit(part=f"PCIe of {node}/{netdev}", gbps=pci),
    )
    cable = "leaf1 Ethernet1/3" if node == "c" else ""
    return PortSite(end=End(node=node, rail=rail, netdev=netdev), limits=limits, driver=driver, cable=cable)


def site(*ports: PortSite) -> BenchSite:
    return BenchSite(cluster=CLUSTER, ports=ports, failed={}, used={}, gpus={})


def sent(value: float, source: str, target: str, name: str = "bandwidth", **more: str | int) -> Measurement:
    labels: dict[str, str | int] = {
        "tool": "perftest",
        "test": "ib_write_bw",
        "from": source,
        "to": target,
        "rail": "r0",
        "trial": 1,
        "pattern": "matrix",
        "size": 65536,
        **more,
    }
    return Measurement(name=name, value=value, unit="Gb/s", labels=labels)


def judged(name: str, here: BenchSite, measured: list[Measurement], before: Baseline | None = None) -> list[Finding]:
    return list(judge(BENCH_BOOK, BenchView(here, measured, before), [BENCH_BOOK.rules[name]]))


def verdicts(findings: list[Finding]) -> list[tuple[str, Verdict]]:
    return [(finding.subject, finding.verdict) for finding in findings]


def test_the_slowest_part_of_the_way_is_named() -> None:
    """A card in a narrow slot at the far end bounds the way; 92 of 100 would be a warning, 60 of 63 is not."""
    here = site(port("a"), port("b", pci=63))
    (finding,) = judged("bench_line_rate", here, [sent(61, "a", "b")])
    assert (finding.subject, finding.verdict) == ("a/e0 > b", Verdict.OK)
    assert finding.expected == "63 Gb/s: PCIe of b/e0 is the slowest part"
    (finding,) = judged("bench_line_rate", site(port("a"), port("b")), [sent(92, "a", "b")])
    assert (finding.verdict, "92%" in finding.observed) == (Verdict.WARN, True)
    (finding,) = judged("bench_line_rate", site(port("a"), port("b", gbps=25)), [sent(12, "a", "b")])
    assert (finding.verdict, "the link of b/e0" in finding.expected) == (Verdict.FAIL, True)


def test_of_several_sizes_the_best_counts_and_both_ways_have_twice_the_line() -> None:
    here = site(port("a"), port("b"))
    (finding,) = judged("bench_line_rate", here, [sent(1, "a", "b", size=2, trial=1), sent(98, "a", "b", trial=2)])
    assert finding.verdict is Verdict.OK
    (finding,) = judged("bench_line_rate", here, [sent(190, "a", "b", direction="both")])
    assert (finding.verdict, "200 Gb/s" in finding.expected) == (Verdict.WARN, True)


def test_many_to_one_share_the_link_of_the_one() -> None:
    here = site(port("a"), port("b"), port("c"))
    flows = [sent(48, node, "c", pattern="incast") for node in ("a", "b")]
    assert verdicts(judged("bench_line_rate", here, flows)) == [("c/e0", Verdict.OK)]


def test_tcp_is_judged_with_several_streams_only_and_an_unknown_speed_is_skipped() -> None:
    tcp = {"tool": "iperf3", "test": "iperf3"}
    here = site(port("a"), port("b"))
    assert judged("bench_line_rate", here, [sent(20, "a", "b", streams=1, **tcp)]) == []
    assert verdicts(judged("bench_line_rate", here, [sent(20, "a", "b", streams=4, **tcp)])) == [
        ("a/e0 > b", Verdict.FAIL)
    ]
    virtual = PortSite(end=End(node="b", rail="r0", netdev="e0"), no_limit="e0 is virtual")
    (finding,) = judged("bench_line_rate", site(port("a"), virtual), [sent(20, "a", "b")])
    assert (finding.verdict, finding.observed) == (Verdict.SKIPPED, "e0 is virtual")


@pytest.mark.parametrize(
    ("rail", "name", "value", "verdict"),
    [
        ("r0", "half_round_trip", 4.9, Verdict.OK),
        ("r0", "half_round_trip", 5.1, Verdict.FAIL),
        ("p2p", "half_round_trip", 2.6, Verdict.FAIL),
        ("p2p", "round_trip", 4.4, Verdict.OK),
    ],
)
def test_published_latencies(rail: str, name: str, value: float, verdict: Verdict) -> None:
    here = site(port("a", rail=rail), port("b", rail=rail))
    (finding,) = judged("bench_latency", here, [sent(value, "a", "b", name, rail=rail, size=2, stat="p50")])
    assert finding.verdict is verdict
    old = site(port("a", rail=rail, driver="mlx4_core"), port("b", rail=rail))
    (finding,) = judged("bench_latency", old, [sent(value, "a", "b", name, rail=rail, size=2, stat="p50")])
    assert finding.verdict is Verdict.SKIPPED


def test_an_outlier_is_named_with_its_cable() -> None:
    here = site(*(port(node) for node in ("a", "b", "c", "d")))
    values = [sent(40 if "c" in way else 97, *way) for way in permutations(("a", "b", "c", "d"), 2)]
    (finding,) = judged(
        "bench_outlier", here, [*values, *(sent(97, *way, rail="r1") for way in permutations(("a", "b", "d"), 2))]
    )
    assert (finding.subject, finding.verdict) == ("c", Verdict.FAIL)
    inwards = [sent(40 if way[1] == "c" else 97, *way) for way in permutations(("a", "b", "c", "d"), 2)]
    (finding,) = judged("bench_outlier", here, inwards)
    assert (finding.subject, finding.verdict, finding.observed) == (
        "c/e0",
        Verdict.FAIL,
        "a → c r0 and 2 other paths: receives 40.00 Gb/s, the median of 3 paths",
    )
    assert "leaf1 Ethernet1/3" in finding.remedy
    assert finding.evidence.splitlines() == [f"{node} → c r0: 40.0000 Gb/s" for node in ("a", "b", "d")]
    incast = [sent(10 * number, sender, "a", pattern="incast") for number, sender in enumerate("bcd", 1)]
    assert judged("bench_outlier", here, incast) == []


def test_an_outlier_begins_with_its_slowest_link_whatever_is_measured() -> None:
    here = site(*(port(node) for node in ("a", "b", "c", "d")))
    ways = list(permutations(("a", "b", "c", "d"), 2))
    (finding,) = judged("bench_outlier", here, [sent(40 if way == ("d", "b") else 97, *way) for way in ways])
    assert (finding.verdict, finding.observed) == (Verdict.WARN, "d → b r0: delivers 40.00 Gb/s")
    slow = {("a", "c"): 31.0, ("b", "c"): 35.0, ("d", "c"): 33.0}
    values = [replace(sent(slow.get(way, 16.0), *way, name="round_trip", stat="p50"), unit="us") for way in ways]
    (finding,) = judged("bench_outlier", here, values)
    assert finding.observed == "b → c r0 and 2 other paths: takes 33.00 µs, the median of 3 paths"


def test_both_ways_at_once_are_added_up_and_compare_with_their_like_only() -> None:
    """perftest adds them up itself; of iperf3 one way may take what the other leaves of a processor."""
    nodes = ("a", "b", "c", "d")
    here = site(*(port(node) for node in nodes))
    one_way = [sent(97, *way) for way in permutations(nodes, 2)]
    both_ways = []
    for trial, (first, second) in enumerate(combinations(nodes, 2)):
        for value, way in ((trial + 1, (first, second)), (49 - trial, (second, first))):
            both_ways.append(sent(value, *way, direction="both", trial=trial, pair=f"{first}-{second}"))
    findings = judged("bench_outlier", here, [*one_way, *both_ways])
    assert [(record.verdict, record.observed) for record in findings] == [
        (Verdict.OK, "ib_write_bw, matrix: 97.00 to 97.00 Gb/s over 12 paths"),
        (Verdict.OK, "ib_write_bw, matrix, both ways: 50.00 to 50.00 Gb/s over 6 paths"),
    ]


def test_a_way_that_is_slow_by_itself_is_not_hidden_by_both_together() -> None:
    here = site(port("a"), port("b"))
    findings = judged("bench_line_rate", here, [sent(80, "a", "b"), sent(195, "a", "b", direction="both")])
    assert [(record.verdict, record.observed) for record in findings] == [
        (Verdict.FAIL, "80.00 Gb/s, 80% (ib_write_bw, matrix)"),
        (Verdict.OK, "195.0 Gb/s, 98% (ib_write_bw, matrix, both ways)"),
    ]


def test_a_latency_is_an_outlier_where_its_shortest_times_are_long_too() -> None:
    here = site(*(port(node) for node in ("a", "b", "c", "d")))
    for shortest, wanted in ((7.0, Verdict.OK), (30.0, Verdict.FAIL)):
        values = []
        for way in permutations(("a", "b", "c", "d"), 2):
            middle, least = (33.0, shortest) if "c" in way else (16.0, 6.5)
            values += [sent(middle, *way, name="round_trip", stat="p50"), sent(least, *way, "round_trip", stat="min")]
        (finding,) = judged("bench_outlier", here, values)
        assert finding.verdict == wanted


def test_a_baseline_names_what_got_worse_and_counts_the_rest() -> None:
    before = make_baseline([sent(97, "a", "b"), sent(97, "b", "a")], cluster="c", run="first", saved=0.0)
    findings = judged("bench_baseline", site(), [sent(80, "a", "b"), sent(96, "b", "a"), sent(9, "a", "c")], before)
    assert verdicts(findings) == [("a > b", Verdict.FAIL), ("cluster", Verdict.OK)]
    assert findings[1].observed == "1 as in first, 1 not in it"


def facts(node: str, address: str, **changes: object) -> DeviceFacts:
    gid = Gid(index=3, gid=f"::ffff:{address}", type="RoCE v2", netdev="e0")
    device = infiniband.RdmaDevice(
        name="m0",
        ports={"1": infiniband.RdmaPort(state="ACTIVE", link_layer="Ethernet", rate_gbps=100.0, gids=(gid,))},
        driver="mlx5_core",
    )
    readings: dict[str, object] = {
        "infiniband": infiniband.RdmaDevices(devices={"m0": device}),
        "pcie": pcie.PcieCards(cards={"0000:01:00.0": pcie.PcieCard(netdevs=("e0",), speed_gts=8.0, width=8)}),
        "ethtool": ethtool.Ethernet(interfaces={"e0": ethtool.EthernetSettings(speed_mbps=100_000)}),
        "ip_link": ip_link.Links(links={"e0": ip_link.Link(name="e0", mtu=9000, state="UP", flags=())}),
        "listening": listening.Listeners(listeners=(listening.Listener(address="*", port=20500),)),
        **changes,
    }
    known = {name: (Known(facts=value, output=OUTPUT),) for name, value in readings.items()}
    return DeviceFacts(device=node, readings=known)


def test_a_site_is_read_from_probes() -> None:
    veth = ip_link.Links(links={"e0": ip_link.Link(name="e0", mtu=9000, state="UP", flags=(), kind="veth")})
    here = site_of(
        CLUSTER,
        {
            "a": facts("a", "10.0.0.1"),
            "b": facts("b", "10.0.0.99"),
            "c": facts("c", "10.0.0.3", ip_link=veth),
            "d": DeviceFacts(device="d", failure=DeviceFailure(reason="no answer")),
        },
    )
    ports = {entry.end.node: entry for entry in here.on("r0")}
    assert (ports["a"].end.gid_index, ports["a"].no_rdma) == (3, "")
    assert [(port.part, round(port.gbps)) for port in ports["a"].limits] == [
        ("the link of a/e0", 100),
        ("PCIe 8 GT/s x8 of a/e0", 63),
    ]
    assert ports["b"].no_rdma == "m0 has no RoCE v2 GID for 10.0.0.2"
    assert (ports["c"].limits, "is virtual" in ports["c"].no_limit, ports["c"].cable) == ((), True, "leaf1 Ethernet1/3")
    assert here.failed == {"d": "no answer"}
    assert here.used["a"] == {20500}


def test_a_plan_leaves_out_what_cannot_be_measured_and_says_why() -> None:
    here = site_of(CLUSTER, {node: facts(node, f"10.0.0.{at}") for at, node in enumerate("abcd", 1)})
    suite = Suite.model_validate(
        {
            "steps": [
                {"test": "ib_read_bw", "pattern": "matrix", "direction": "one"},
                {"test": "ping", "rails": "together"},
            ]
        }
    )
    plan = make_schedule(suite, here)
    read = [trial for trial in plan.trials if trial.step.test == "ib_read_bw"]
    assert [(flow.source.node, flow.target.node) for trial in read for flow in trial.flows] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    # A read pulls: the one who receives is the client.
    assert [(flow.call.client.node, flow.call.server.node) for flow in read[0].flows] == [("b", "a")]
    assert read[0].flows[0].call.settings.traffic_class == 106
    assert {(omission.subject, omission.verdict) for omission in plan.omitted} == {
        ("d/e0", Verdict.SKIPPED),
        ("a/e1", Verdict.SKIPPED),
        ("b/e1", Verdict.SKIPPED),
    }
    together = [trial for trial in plan.trials if trial.step.test == "ping"]
    assert [{flow.source.rail for flow in trial.flows} for trial in together] == [{"r0", "p2p"}] * 2


def test_what_is_wrong_has_a_remedy_and_each_verdict_a_page() -> None:
    (finding,) = judged("bench_line_rate", site(port("a"), port("b")), [sent(50, "a", "b")])
    assert finding.remedy == BENCH_BOOK.rules["bench_line_rate"].fix
    assert finding.why == BENCH_BOOK.rules["bench_line_rate"].why
    assert all(all(rule.sections.values()) for rule in BENCH_BOOK.rules.values())
    assert {rule.name for rule in JUDGED} == BENCH_BOOK.rules.keys()
