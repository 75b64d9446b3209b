"""Flows: which two are a connection, where they were recorded, marks, pauses, incast."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.captures.cases.case import CONTEXT, FIRST, SECOND, at, between, stream
from tests.captures.exchange import Network, Transfer
from tests.captures.flows import Flow, in_order
from tests.captures.truth import START, Packet, pause, pfc

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context, KnownPort, plain_address
from railbed.capture.analysis.results import Analysis
from railbed.model.cluster import Cluster


def pairs(analysis: Analysis) -> dict[int, tuple[int, str]]:
    """Return queue pairs of the second node with those of the first that belong to them, and how certain that is."""
    return {
        flow.key.qp: (flow.partner.key.qp, flow.partner.certainty)
        for flow in analysis.flows
        if flow.key.source == FIRST and flow.partner
    }


def connections(*flows: Flow, delay: int = 5000) -> list[Packet]:
    """Return connections that send a packet each in turn, which is acknowledged after a while."""
    packets = []
    for _ in range(40):
        for flow in flows:
            packets += [*flow.send(100), flow.ack(delay=delay)]
    return in_order(packets)


def test_different_numbers_make_a_connection_certain() -> None:
    flows = [Flow(qp=10 + n, reverse_qp=20 + n, psn=1000 * n, source_port=1) for n in range(6)]
    expected = {10 + n: (20 + n, "certain") for n in range(6)}
    assert pairs(analyse([at(1, connections(*flows))])) == expected


def test_connections_with_the_same_numbers_differ_by_the_port() -> None:
    flows = [Flow(qp=10 + n, reverse_qp=20 + n, source_port=50_000 + n) for n in range(4)]
    assert pairs(analyse([at(1, connections(*flows))])) == {10 + n: (20 + n, "likely") for n in range(4)}


def test_without_a_port_the_closer_answers_decide_and_the_rest_is_possible() -> None:
    flows = [Flow(qp=10 + n, reverse_qp=20 + n, source_port=1, time=START + 2_000_000 * n) for n in range(2)]
    assert pairs(analyse([at(1, connections(*flows))])) == {10: (20, "likely"), 11: (21, "likely")}
    same = [Flow(qp=10 + n, reverse_qp=20 + n, source_port=1) for n in range(3)]
    assert {certainty for _, certainty in pairs(analyse([at(1, connections(*same))])).values()} == {"possible"}


def test_both_directions_of_a_connection_carry_requests() -> None:
    there = Flow(qp=10, reverse_qp=20, psn=5)
    back = Flow(source=SECOND, destination=FIRST, qp=20, reverse_qp=10, psn=900, time=START + 300)
    analysis = analyse([at(1, connections(there), connections(back))])
    assert len(analysis.flows) == 2
    assert pairs(analysis) == {10: (20, "certain")}
    for flow in analysis.flows:
        assert (len(flow.main.view.requests.rows), len(flow.main.view.answers)) == (40, 40)
        assert flow.main.round_trips is not None
        assert (flow.main.round_trips.count, flow.main.round_trips.median) == (40, 5000)


def test_datagrams_name_their_sender_and_have_no_gaps() -> None:
    there = [Packet(opcode=0x64, qp=7, source_qp=9, psn=5 * n, payload=60, time=START + n) for n in range(20)]
    back = [replace(it, source=SECOND, destination=FIRST, qp=9, source_qp=7, time=it.time + 3) for it in there]
    analysis = analyse([at(1, there, back)])
    assert pairs(analysis) == {7: (9, "certain")}
    for flow in analysis.flows:
        assert flow.transport == "UD"
        assert (flow.main.sequence.holes, flow.main.messages.count, flow.main.messages.bytes) == (0, {"send": 20}, 1200)


def test_a_flow_without_answers_has_no_partner_among_strangers() -> None:
    flow = Flow(qp=10, reverse_qp=20)
    strange = [flow.back(0x11, psn=5_000_000 + n, qp=99, time=START + 50 * n) for n in range(20)]
    assert pairs(analyse([at(1, [flow.send(1)[0] for _ in range(20)], strange)])) == {}


@pytest.mark.parametrize("swap", [False, True])
def test_files_without_names_are_put_in_order_by_their_round_trips(swap: bool) -> None:
    transfer = Transfer().send(60, [30])
    first, second = (replace(it, addresses=(), device="", port="") for it in transfer.ends(offset=-7_000))
    analysis = analyse([second, first] if swap else [first, second])
    flow = next(flow for flow in analysis.flows if flow.key.source == FIRST)
    assert [(view.end, view.recording.name) for view in flow.views] == [
        ("sender", "node1/rail0"),
        ("receiver", "node2/rail0"),
    ]
    assert len(flow.legs[0].journey.lost) == 1


def test_a_mirror_between_tells_on_which_side_packets_are_lost() -> None:
    transfer = Transfer().send(80, [20])
    first, second = transfer.ends()
    passing = [replace(it, time=it.time + 2000) for n, it in enumerate(in_order(transfer.packets))]
    before = between([it for n, it in enumerate(passing) if n not in transfer.lost])
    flow = next(flow for flow in analyse([first, second, before]).flows if flow.key.source == FIRST)
    assert [view.end for view in flow.views] == ["sender", "between", "receiver"]
    assert [len(leg.journey.lost) for leg in flow.legs] == [1, 0]
    flow = next(flow for flow in analyse([first, second, between(passing)]).flows if flow.key.source == FIRST)
    assert [len(leg.journey.lost) for leg in flow.legs] == [0, 1]


@settings(max_examples=8, deadline=None)
@given(st.sets(st.integers(0, 180), max_size=20), st.sets(st.integers(0, 180), max_size=20))
def test_marks_at_both_ends(marked: set[int], rewritten: set[int]) -> None:
    packets = Transfer().send(90).packets
    times = {packets[n].time for n in rewritten if n < len(packets) and packets[n].source == FIRST}

    def rewrite(packet: Packet) -> Packet:
        changed = packet.source == FIRST and packet.time in times
        return replace(packet, tos=packet.tos & 3 | 10 << 2) if changed else packet

    flow = analyse(Network(marked=marked, rewrite=rewrite).ends(packets)).flows[0]
    congested = sum(packets[n].source == FIRST for n in marked if n < len(packets))
    assert flow.views[0].marks.ce == 0
    assert flow.views[1].marks.ce == congested == len(flow.legs[0].journey.marks.congested)
    assert flow.views[1].marks.ce_share == congested / 90
    assert flow.legs[0].journey.marks.ecn == ({"ect0 → ce": congested} if congested else {})
    assert flow.legs[0].journey.marks.dscp == ({"26 → 10": len(times)} if times else {})
    assert flow.views[1].marks.dscp.get(10, 0) == len(times)


def test_priorities_of_tags() -> None:
    tagged = stream(30, tags=((0x8100, 3 << 13 | 100),))
    marks = analyse([at(1, tagged, stream(20, Flow(qp=50, reverse_qp=51)))]).flows[0].main.marks
    assert (marks.priority, marks.untagged) == ({3: 30}, 0)


def test_pauses_end_with_the_next_frame_or_their_time() -> None:
    speed = 10.0
    quantum = 51.2
    frames = [pfc({3: 1000, 4: 10}, time=START), pfc({3: 0}, time=START + 20_000), pfc({3: 100}, time=START + 90_000)]
    analysis = analyse([at(1, frames, [pause(200, time=START)])], CONTEXT)
    paused = {it.priority: it for it in analysis.pauses}
    assert paused[3].seconds == pytest.approx((20_000 + 100 * quantum) / 1e9, abs=1e-9)
    assert (paused[3].frames, paused[3].stops, paused[3].longest) == (3, 2, 20_000 / 1e9)
    assert paused[4].seconds == pytest.approx(10 * quantum / 1e9, abs=1e-9)
    assert paused[None].seconds == pytest.approx(200 * 512 / speed / 1e9, abs=1e-9)
    assert all(it.exact for it in paused.values())
    unknown = analyse([at(1, frames)]).pauses
    assert [(it.priority, it.seconds, it.exact) for it in unknown] == [(3, 20_000 / 1e9, False), (4, 0.0, False)]


def test_incast_counts_moments_and_the_share_of_the_link() -> None:
    packets = []
    for number in (1, 2, 4):
        flow = Flow(
            source=f"10.0.0.{number}", destination="10.0.0.3", qp=number + 10, reverse_qp=number + 20, gap=10_000
        )
        flow.time += 1_000_000 * (number == 4)
        packets += [flow.send(1000)[0] for _ in range(200)]
    context = Context(places={"10.0.0.3": KnownPort(node="node3", speed=2.0)})
    (incast,) = analyse([between(packets)], context).incasts
    assert set(incast.senders) == {"10.0.0.1", "10.0.0.2", "10.0.0.4"}
    assert (incast.moments, incast.overloaded, incast.width) == (2, 1, 1_000_000)
    size = packets[0].length
    assert incast.peak == 300 * size * 1000
    assert incast.share == pytest.approx(300 * size * 1000 / 250e6)
    assert incast.worst == START + 1_000_000


def test_an_address_has_one_spelling() -> None:
    assert plain_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert plain_address("fd00:0:0::01") == "fd00::1"
    assert plain_address("unknown") == "unknown"


def test_the_cluster_file_gives_names_speeds_and_marks() -> None:
    names = {1: "mlx5_0", 2: "rxe0"}
    ports = [{"netdev": "ens1", "rdma": names[n], "rail": "rail0", "address": f"10.0.0.{n}"} for n in (1, 2)]
    nodes = {f"node{n}": {"host": f"h{n}", "ports": [port]} for n, port in enumerate(ports, 1)}
    rails = {"rail0": {"subnet": "10.0.0.0/24", "speed": 25}}
    cluster = Cluster.model_validate({"name": "lab", "rails": rails, "nodes": nodes})
    context = Context.of(cluster)
    expected = KnownPort(node="node2", port="ens1", rail="rail0", speed=25, mtu=9000, software=True)
    assert context.place("::ffff:10.0.0.2") == expected
    assert context.places["10.0.0.1"].software is None, "people may give a software device any name"
    shown = Context.of(cluster, {("node1", "ens1"): True, ("node2", "ens1"): False})
    assert [shown.places[f"10.0.0.{n}"].software for n in (1, 2)] == [True, False], "the device decides, not its name"
    assert (context.dscp, context.ecn, context.priority, context.cnp_dscp) == (26, True, 3, 48)
    assert (context.node("10.9.9.9"), context.port("10.0.0.1"), context.rail("10.9.9.9")) == (
        "10.9.9.9",
        "node1/ens1",
        "",
    )
