"""The proof of what carried the gradients: counters of every kind of card, bounds that hold, correct verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.launch.fabric import NodeFabric
from railbed.model.cluster import Cluster, Hca
from railbed.model.record import Event, Finding, Measurement, Verdict
from railbed.model.statistics import STUCK, WRAP, Range, growth_between
from railbed.train.network.ledger import Ledger, must_be_rdma
from railbed.train.network.tcp import (
    ETHERNET_BYTES,
    CounterReading,
    InterfaceReading,
    PortSentBytes,
    SentBytes,
    TcpReading,
    path_mtu,
    sent_between,
)
from railbed.train.network.verdict import NodeTraffic, RailBytes, finding, in_short, node_traffic
from railbed.train.worker.observe.counters import read_counters

GB = 10**9
counts = st.integers(0, 2**63)


def pair(rdma: str | None = "rxe0") -> Cluster:
    def node(number: int) -> dict[str, Any]:
        port = {"netdev": "rail0", "rail": "rail0", "address": f"10.1.0.{number}"}
        return {"host": f"10.0.0.{number}", "ports": [port | ({"rdma": rdma} if rdma else {})]}

    rails = {"rail0": {"subnet": "10.1.0.0/24"}}
    return Cluster.model_validate({"name": "pair", "rails": rails, "nodes": {"a": node(1), "b": node(2)}})


class TestCounters:
    @given(counts, counts)
    def test_one_of_64_bits(self, start: int, more: int) -> None:
        span = growth_between(start, start + more)
        assert span.least == more
        assert span.most in (more, None)

    @given(st.integers(0, STUCK), st.integers(0, WRAP // 2 - 1))
    def test_one_that_wraps_at_32_bits(self, start: int, more: int) -> None:
        span = growth_between(start, (start + more) % WRAP)
        assert span.least == more
        assert span.most in (more, None)

    @given(st.integers(0, STUCK), st.integers(0, 2**40))
    def test_one_that_sticks_at_32_bits(self, start: int, more: int) -> None:
        span = growth_between(start, min(start + more, STUCK))
        assert span.least <= more
        assert span.most is None or span.most == more

    def test_one_that_was_set_to_zero_tells_only_what_came_since(self) -> None:
        assert growth_between(5000, 300) == Range(300, None)
        assert growth_between(2**40, 300) == Range(300, None)

    @pytest.mark.parametrize(("mtu", "payload"), [(1500, 1024), (4200, 4096), (9000, 4096), (4100, 2048), (600, 512)])
    def test_the_path_mtu_of_soft_roce(self, mtu: int, payload: int) -> None:
        assert path_mtu(mtu) == payload


def reading(
    rdma: dict[str, dict[str, int]],
    tx_bytes: int = 0,
    segments: int | None = 0,
    mtu: int = 4200,
    tcp: TcpReading | None = None,
) -> CounterReading:
    net = {"rail0": InterfaceReading(tx_bytes=tx_bytes, mtu=mtu)}
    return CounterReading(rdma=rdma, net=net, tcp_segments=segments, tcp=tcp)


def connections(
    segments: int, counted_segments: int, ranks: dict[str, int], others: int = 0, unclear: int = 0
) -> TcpReading:
    return TcpReading(
        node_segments=(segments, segments),
        segments=counted_segments,
        ranks=ranks,
        others={"rail0": others},
        unclear=unclear,
    )


def ports_moved(before: dict[str, int], after: dict[str, int]) -> PortSentBytes | None:
    stretch = sent_between(reading({"rxe0/1": before}), reading({"rxe0/1": after}), {"rxe0/1": "rail0"})
    return stretch.rdma["rxe0/1"]


class TestCards:
    def test_words_of_four_bytes(self) -> None:
        sent = ports_moved({"counters/port_xmit_data": WRAP - 10}, {"counters/port_xmit_data": 15})
        assert sent == PortSentBytes(payload=Range.exactly(100))

    def test_bytes_are_taken_before_words(self) -> None:
        before = {"counters/port_xmit_data": 0, "hw_counters/tx_rdma_ucast_bytes": 0}
        after = {"counters/port_xmit_data": 9, "hw_counters/tx_rdma_ucast_bytes": 7}
        assert ports_moved(before, after) == PortSentBytes(payload=Range.exactly(7))

    def test_packets_are_bytes_between_bounds(self) -> None:
        sent = ports_moved({"hw_counters/sent_pkts": 10}, {"hw_counters/sent_pkts": 20})
        assert sent == PortSentBytes(payload=Range(0, 40960), frames=Range(580, 42240))

    def test_a_card_that_does_not_count_is_not_zero(self) -> None:
        assert ports_moved({}, {}) is None
        stretch = SentBytes(rdma={"a/1": None}, net={}, tcp=Range(0, 0))
        counted = SentBytes(rdma={"a/1": PortSentBytes(payload=Range.exactly(3))}, net={}, tcp=Range(0, 0))
        assert (stretch + counted).rdma == (counted + stretch).rdma == {"a/1": None}
        assert (counted + counted).rdma == {"a/1": PortSentBytes(payload=Range.exactly(6))}

    def test_counters_are_read_from_files(self, tmp_path: Path) -> None:
        files = {
            "infiniband/mlx5_0/ports/1/counters/port_xmit_data": "12",
            "infiniband/mlx5_0/ports/1/hw_counters/tx_bytes": "N/A (no PMA)",
            "infiniband/rxe0/ports/1/hw_counters/sent_pkts": "7",
            "net/eth0/statistics/tx_bytes": "1000",
            "net/eth0/mtu": "9000",
            "net/bonding_masters": "",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / "snmp").write_text("Ip: Forwarding\nIp: 1\nTcp: InSegs OutSegs RetransSegs\nTcp: 9 30 4\n")
        assert read_counters(tmp_path, tmp_path) == {
            "rdma": {"mlx5_0/1": {"counters/port_xmit_data": 12}, "rxe0/1": {"hw_counters/sent_pkts": 7}},
            "net": {"eth0": {"tx_bytes": 1000, "mtu": 9000}},
            "tcp_segments": 34,
        }
        nothing = read_counters(tmp_path / "none", tmp_path / "none")
        assert nothing == {"rdma": {}, "net": {}, "tcp_segments": None}


@st.composite
def truths(draw: st.DrawFn) -> tuple[float, NodeTraffic]:
    """Draw what really happened on a node, as its counters would show it: some share over RDMA, and other traffic."""
    card = draw(st.sampled_from(["words", "soft", "mute", "none"]))
    gradients = draw(st.integers(10**6, 10**12))
    share = draw(st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]) | st.floats(0, 1)) if card != "none" else 0.0
    mtu = draw(st.sampled_from([1500, 4200, 9000]))
    over_rdma = int(gradients * share)
    own_tcp = gradients - over_rdma + draw(st.integers(0, gradients // 20))
    other_tcp = draw(st.integers(0, gradients * 3))
    over_tcp = own_tcp + other_tcp
    other_rdma = 0 if card == "none" else draw(st.integers(0, gradients * 3))
    segments = over_tcp // mtu + 1 + draw(st.integers(0, 1000))
    payload = over_rdma + other_rdma
    packets = payload // path_mtu(mtu) + 1 + draw(st.integers(0, 10**6))
    frames = payload + packets * 70 if card == "soft" else 0
    start = draw(st.integers(0, 2**20))
    name, first, last = {
        "words": ("counters/port_xmit_data", start, start + (payload + packets * 30) // 4 + 1),
        "soft": ("hw_counters/sent_pkts", start, start + packets),
        "mute": ("hw_counters/out_of_buffer", 0, 0),
        "none": ("", 0, 0),
    }[card]
    ports = pair().nodes["a"].ports
    before = {"rxe0/1": {name: first}} if name else {}
    after = {"rxe0/1": {name: last}} if name else {}
    sent = start + over_tcp + segments * ETHERNET_BYTES + frames
    nothing = counted = None
    if draw(st.booleans()):
        # By connection: on the rail or elsewhere, some of it hidden, and some in connections that no look met.
        at = draw(st.sampled_from(["rail0", "eth0"]))
        hidden, missed = (draw(st.integers(0, own_tcp // 10)) for _ in range(2))
        nothing = connections(0, 0, {})
        counted_segments = segments - -(-missed // mtu)
        counted = connections(segments, counted_segments, {at: own_tcp - hidden - missed}, other_tcp, hidden)
    stretch = sent_between(
        reading(before, start, 0, mtu, nothing), reading(after, sent, segments, mtu, counted), {"rxe0/1": "rail0"}
    )
    return share, node_traffic("a", ports, stretch, gradients=gradients, hook=gradients)


@given(truths())
def test_what_is_claimed_is_true(truth: tuple[float, NodeTraffic]) -> None:
    """Whatever the card counts and whoever else uses it, no claim is made that did not happen."""
    share, node = truth
    least, most = node.share
    assert least <= share + 1e-5
    assert most >= share - 1e-5
    match node.carrier:
        case "rdma":
            assert share > 0.89
        case "tcp":
            assert share < 0.11
        case "both":
            assert share < 0.91
        case "elsewhere":
            assert node.other_interface == "eth0"
            assert share < 0.11


@given(st.sampled_from([0.0, 1.0]), st.integers(0, 10**12), st.booleans())
def test_other_programs_do_not_blur_it(share: float, others: int, soft: bool) -> None:
    """Where connections are counted, what other programs send over the rail changes nothing."""
    gradients = 10**9
    over_rdma, mtu = int(gradients * share), 9000
    packets = over_rdma // 4096 + 1
    name, count = ("hw_counters/sent_pkts", packets) if soft else ("counters/port_xmit_data", over_rdma // 4 + 1)
    segments = (others + gradients - over_rdma) // 1400 + 1
    sent = others + gradients + segments * 70 + packets * 70
    before = reading({"rxe0/1": {name: 0}}, 0, 0, mtu, connections(0, 0, {}))
    counted = connections(segments, segments, {"rail0": gradients - over_rdma, "eth0": 4000}, others)
    stretch = sent_between(
        before, reading({"rxe0/1": {name: count}}, sent, segments, mtu, counted), {"rxe0/1": "rail0"}
    )
    node = node_traffic("a", pair().nodes["a"].ports, stretch, gradients=gradients, hook=gradients)
    assert node.carrier == ("rdma" if share else "tcp")


def traffic(node: str, *, rdma: Range | None, tcp: Range, gradients: int = 31 * GB, **changes: Any) -> NodeTraffic:
    rail = RailBytes(rail="rail0", netdev="rail0", rdma_port="mlx5_0/1", rdma=rdma, tcp=tcp)
    fields = {"node": node, "gradients": gradients, "hook": gradients, "rails": (rail,), "elsewhere": {}}
    return NodeTraffic(**{**fields, "tcp_most": None, **changes})


def judged(*nodes: NodeTraffic, transport: str = "mpi", obstacle: str = "", demanded: bool = True) -> Finding:
    fabric = {node.node: NodeFabric(obstacle=obstacle, remedy="mend it" if obstacle else "") for node in nodes}
    return finding(nodes, transport, fabric, demanded=demanded)


class TestWords:
    def test_over_rdma(self) -> None:
        nodes = [traffic(name, rdma=Range.exactly(32 * GB), tcp=Range.exactly(GB // 5)) for name in "ab"]
        finding = judged(*nodes)
        assert finding.verdict is Verdict.OK
        assert finding.observed == (
            "99.4 % of 62.0 GB of gradients crossed RoCE on both nodes; 0.6 % over TCP at most, including control"
        )
        assert in_short(nodes) == "99.4 % RoCE"

    def test_over_tcp_by_gloo(self) -> None:
        nodes = [traffic(name, rdma=Range.exactly(0), tcp=Range.exactly(32 * GB)) for name in "abc"]
        finding = judged(*nodes, transport="gloo", demanded=False)
        assert finding.verdict is Verdict.WARN
        assert finding.observed == "gradients went over TCP: 93.0 GB on all 3 nodes, because gloo supports only TCP"
        assert "--transport mpi" in finding.remedy
        assert in_short(nodes) == "over TCP"

    def test_over_tcp_although_rdma_is_there(self) -> None:
        good = traffic("a", rdma=Range.exactly(32 * GB), tcp=Range.exactly(0))
        bad = traffic("b", rdma=Range.exactly(0), tcp=Range.exactly(32 * GB))
        finding = judged(good, bad, transport="nccl")
        assert finding.verdict is Verdict.FAIL
        assert finding.observed.endswith("31.0 GB on b, because nccl used sockets although RDMA is available")

    def test_an_obstacle_is_the_cause(self) -> None:
        finding = judged(traffic("b", rdma=Range.exactly(0), tcp=Range.exactly(32 * GB)), obstacle="no GID")
        assert finding.observed.endswith("because b has no RDMA: no GID")
        assert finding.remedy == "mend it"

    def test_tcp_of_the_ranks_is_announced_whatever_else_uses_rdma(self) -> None:
        node = traffic("a", rdma=Range.exactly(90 * GB), tcp=Range.exactly(32 * GB), away={})
        assert judged(node).observed.startswith("gradients went partly over TCP: 31.0 GB on a")

    def test_management_traffic_is_not_a_sign_of_another_way(self) -> None:
        """Another interface sent as much, but not for the ranks."""
        node = traffic(
            "a",
            rdma=Range.exactly(0),
            tcp=Range.exactly(0),
            elsewhere={"eth9": Range.exactly(40 * GB)},
        )
        assert node.carrier == "elsewhere"
        assert replace(node, away={"eth9": 2000}).carrier == "unknown"

    def test_the_ranks_on_another_interface_are_not_rdma(self) -> None:
        """Others use RDMA at the same time, and the ranks another interface."""
        node = traffic("a", rdma=Range.exactly(90 * GB), tcp=Range.exactly(0), away={"eth9": 32 * GB})
        assert node.carrier == "unknown"
        assert replace(node, away={}).carrier == "rdma"

    def test_why_tcp_is_not_counted_by_connection(self) -> None:
        node = traffic("a", rdma=Range.exactly(40 * GB), tcp=Range(0, 40 * GB), unread="the kernel is too old")
        finding = judged(node)
        assert finding.observed.endswith("on a at the same time, and the kernel is too old")
        assert "a: TCP is not counted by connection: the kernel is too old" in finding.evidence

    def test_over_an_interface_that_is_not_a_rail(self) -> None:
        away = traffic(
            "a",
            rdma=Range.exactly(0),
            tcp=Range.exactly(0),
            elsewhere={"eth9": Range.exactly(32 * GB)},
        )
        assert judged(away).observed.endswith("because mpi used eth9 of a, which is on no rail")

    @pytest.mark.parametrize(
        ("node", "why"),
        [
            (traffic("a", rdma=None, tcp=Range.exactly(0)), "mlx5_0/1 of a does not count the bytes it sends"),
            (
                traffic("a", rdma=Range.exactly(0), tcp=Range.exactly(0)),
                "neither RDMA nor TCP on the rails of a moved by 31.0 GB",
            ),
            (
                traffic("a", rdma=Range.exactly(40 * GB), tcp=Range(0, 40 * GB)),
                "RDMA moved 40.0 GB and TCP 0 B to 40.0 GB on a at the same time",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_unknown_says_why(self, node: NodeTraffic, why: str) -> None:
        finding = judged(node, traffic("b", rdma=Range.exactly(32 * GB), tcp=Range.exactly(0)))
        assert finding.verdict is Verdict.UNKNOWN
        assert finding.observed.endswith(why)

    def test_partly(self) -> None:
        half = Range.exactly(31 * GB // 2)
        finding = judged(traffic("a", rdma=half, tcp=half))
        assert finding.observed.startswith("gradients went partly over TCP: 31.0 GB on a")


def counters(segments: int, tx_bytes: int, packets: int, *, begin: bool = False) -> dict[str, Any]:
    return {
        "kind": "counters",
        "begin": begin,
        "transport": "mpi",
        "rdma": {"rxe0/1": {"hw_counters/sent_pkts": packets}},
        "net": {"rail0": {"tx_bytes": tx_bytes, "mtu": 4200}},
        "tcp_segments": segments,
    }


MANAGEMENT = {"tx_bytes": 0, "mtu": 1500}


def progress(size: int) -> dict[str, Any]:
    return {"kind": "progress", "bytes_sent": size, "bytes_reduced": size}


class TestLedger:
    def ledger(self, *, demanded: bool = True) -> Ledger:
        ledger = Ledger(pair(), {}, demanded=demanded)
        ledger.generation(["a", "b"])
        return ledger

    def add_messages(self, ledger: Ledger, *messages: dict[str, Any]) -> list[Any]:
        return [
            record
            for node in "ab"
            for message in messages
            for record in ledger.receive(node, "ab".index(node), message)
        ]

    def test_an_honest_run_over_soft_roce(self) -> None:
        ledger = self.ledger()
        begin = counters(100, 5000, 50, begin=True)
        end = counters(130, 5000 + 4_300_000, 50 + 1100)
        records = self.add_messages(ledger, begin, progress(2_000_000), progress(2_000_000), end)
        (path,) = [record for record in records if isinstance(record, Event) and record.name == "gradient_path"]
        assert path.data["verdict"] == "ok"
        assert "96.8 % of 8.00 MB of gradients crossed RoCE on both nodes" in path.message
        *numbers, last = ledger.closing()
        assert isinstance(last, Finding)
        assert last.verdict is Verdict.OK
        most = [
            value.value
            for value in numbers
            if isinstance(value, Measurement) and value.name == "rdma_bytes" and value.labels["bound"] == "most"
        ]
        assert most == [4_300_000, 4_300_000]  # 1100 packets of 4096 bytes would be more than the interface sent

    @pytest.mark.parametrize("counted", [True, False], ids=["by connection", "by segments"])
    def test_steps_of_two_minutes(self, *, counted: bool) -> None:
        """The words of the ranks over SSH are 450 segments in a step, as long as 4 MB of gradients at their longest."""
        ledger = self.ledger()
        records = []
        for step in range(5):
            message = counters(900 + 450 * step, 4_060_000 * step, 1275 * step, begin=step == 0)
            message["net"] = {"rail0": {"tx_bytes": 4_060_000 * step, "mtu": 9000}, "mgmt0": MANAGEMENT}
            message["connections"] = {"reason": "the kernel does not count"}
            if counted:
                # Over two minutes one connection came and went: 12 segments that no look met.
                message["connections"] = {
                    "node_segments": [900 + 450 * step] * 2,
                    "segments": 438 * step,
                    "ranks": {"rail0": 3000 * step},
                    "others": {"mgmt0": 60_000 * step, "rail0": 50_000 * step},
                    "unclear": 0,
                }
            records += self.add_messages(ledger, *([progress(3_727_360)] if step else []), message)
        paths = [record for record in records if isinstance(record, Event) and record.name == "gradient_path"]
        assert len(paths) == 4
        if counted:
            assert {path.data["verdict"] for path in paths} == {"ok"}
            assert "97.0 % of 29.8 MB of gradients crossed RoCE on both nodes" in paths[-1].message
            nodes: Any = paths[-1].data["nodes"]
            rail = nodes[0]["rails"][0]
            assert rail["tcp_bytes"] == [12_000, 12_000 + 4 * 12 * 9018]
            assert rail["other_tcp_bytes"] == 200_000
        else:
            assert {path.data["verdict"] for path in paths} == {"unknown"}
            assert "RDMA moved 0 B to 16.2 MB and TCP 0 B to 15.9 MB" in paths[-1].message
            assert paths[-1].message.endswith("and the kernel does not count")

    def test_a_generation_that_was_killed_costs_its_open_stretch(self) -> None:
        """The steps after the last reading count on neither side, and counters that begin anew do no harm."""
        ledger = self.ledger()
        self.add_messages(
            ledger, counters(0, 0, 0, begin=True), progress(10**6), counters(300, 1_100_000, 0), progress(10**6)
        )
        ledger.generation(["a", "b"])
        self.add_messages(ledger, counters(5, 700, 0, begin=True), progress(10**6), counters(305, 1_100_700, 0))
        finding = ledger.finding()
        assert finding is not None
        assert finding.verdict is Verdict.FAIL
        assert "4.00 MB on both nodes" in finding.observed

    def test_a_node_alone_proves_nothing(self) -> None:
        ledger = self.ledger()
        ledger.generation(["a"])
        assert self.add_messages(ledger, counters(0, 0, 0, begin=True), progress(10**6), counters(9, 9, 9)) == []
        assert ledger.closing() == []

    def test_several_ranks_of_a_node_reduce_the_same_gradients(self) -> None:
        ledger = self.ledger()
        for node, first in (("a", 0), ("b", 2)):
            ledger.receive(node, first, counters(0, 0, 0, begin=True))
            for rank in (first, first + 1):
                ledger.receive(node, rank, progress(10**6))
            ledger.receive(node, first, counters(300, 1_100_000, 0))
        finding = ledger.finding()
        assert finding is not None
        assert "a: 1.00 MB of gradients, 2.00 MB sent by the hook" in finding.evidence


@pytest.mark.parametrize(
    ("rdma", "transport", "proves", "demanded"),
    [
        ("rxe0", "mpi", False, True),
        ("rxe0", "auto", False, False),
        ("rxe0", "auto", True, True),
        (None, "mpi", True, False),
    ],
)
def test_when_tcp_is_a_failure(rdma: str | None, transport: str, proves: bool, demanded: bool) -> None:
    assert must_be_rdma(pair(rdma), transport, proves=proves) is demanded


def test_an_hca_without_an_interface_carries_rdma_and_no_tcp() -> None:
    hca = Hca(rdma="mlx5_0", rail="ib0")
    stretch = SentBytes(
        rdma={"mlx5_0/1": PortSentBytes(payload=Range.exactly(10_000))},
        net={"eno1": Range.exactly(500)},
        tcp=Range.exactly(500),
    )
    traffic = node_traffic("a", [hca.as_port], stretch, gradients=10_000, hook=10_000)
    assert traffic.carrier == "rdma"
    assert traffic.tcp == Range.exactly(0)
