"""Cases of rules about marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from railbed.capture.packets import Kind, Recording
from tests.captures.cases.case import CONTEXT, FIRST, NO_CONTEXT, SECOND, Case, at, between, ok, skipped, stream, wrong
from tests.captures.exchange import Network
from tests.captures.flows import Flow
from tests.captures.truth import Packet

VLAN = 0x8100


def with_wrong(wrong_count: int, total: int, **known: Any) -> list[Packet]:
    """Return a stream of which some packets at the end have other marks."""
    flow = Flow()
    return [*stream(total - wrong_count, flow), *stream(wrong_count, flow, **known)]


def nodes(marked: int, total: int, unmarked: int = 100) -> list[Packet]:
    """Return streams of several nodes to the last of them; some packets of nodes that do not mark have DSCP 0."""
    packets = []
    for number in range(1, total):
        flow = Flow(source=f"10.0.0.{number}", destination=f"10.0.0.{total}", qp=10 + number, reverse_qp=100 + number)
        packets += stream(100 - (0 if number <= marked else unmarked), flow)
        packets += stream(0 if number <= marked else unmarked, flow, tos=2)
    last = Flow(source=f"10.0.0.{total}", destination="10.0.0.1", qp=50, reverse_qp=51)
    return [*packets, *stream(100, last)]


def rewritten(count: int) -> Sequence[Recording]:
    """Return both ends of a stream; of some packets, the network clears the DSCP."""
    chosen = {packet.psn for packet in stream(count)}

    def rewrite(packet: Packet) -> Packet:
        return replace(packet, tos=2) if packet.source == FIRST and packet.psn in chosen else packet

    return Network(rewrite=rewrite).ends(stream(1000))


def notices(count: int, low: int, **known: Any) -> list[Packet]:
    """Return a stream with notifications, of which some have other marks."""
    flow = Flow()
    packets = stream(50, flow)
    packets += [flow.notify(delay=1000 * number) for number in range(count - low)]
    return [*packets, *(replace(flow.notify(delay=1000 * number), **known) for number in range(low))]


def version1(count: int) -> list[Packet]:
    """Return a stream of which some packets have no IP header."""
    flow = Flow()
    old: dict[str, Any] = {"kind": Kind.ROCE1, "source": "::ffff:10.0.0.1", "destination": "::ffff:10.0.0.2"}
    return [*stream(1000 - count, flow), *(replace(flow.send(100)[0], **old) for _ in range(count))]


NODE1, NODE2 = "node1/ens1", "node2/ens1"
CASES = [
    Case(
        "marking_missing",
        "ten of a thousand",
        lambda: [at(1, with_wrong(11, 1000, tos=2))],
        wrong("fail", NODE1, "11 of 1,000 RDMA packets have DSCP 0"),
    ),
    Case(
        "marking_missing",
        "ten of hundred",
        lambda: [at(1, with_wrong(10, 100, tos=0))],
        wrong("fail", NODE1, "10 of 100 RDMA packets have DSCP 0"),
    ),
    Case(
        "marking_missing",
        "nine of hundred",
        lambda: [at(1, with_wrong(9, 100, tos=0))],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_missing",
        "exactly one in hundred",
        lambda: [at(1, with_wrong(10, 1000, tos=0), with_wrong(0, 500))],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_missing",
        "connection manager",
        lambda: [at(1, stream(100, Flow(qp=1), tos=0), stream(100, Flow(qp=5)))],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_missing",
        "nothing expected",
        lambda: [between(stream(100, tos=0))],
        wrong("warn", FIRST, "100 of 100 RDMA packets have DSCP 0"),
        NO_CONTEXT,
    ),
    Case(
        "marking_missing",
        "expected so",
        lambda: [at(1, stream(100, tos=0))],
        skipped("the cluster file expects DSCP 0; 1 other port not judged either"),
        replace(CONTEXT, dscp=0),
    ),
    Case(
        "marking_dscp",
        "some",
        lambda: [at(1, with_wrong(10, 100, tos=24 << 2 | 2))],
        wrong("fail", NODE1, "10 of 100 RDMA packets have another DSCP, mostly 24"),
    ),
    Case(
        "marking_dscp",
        "few",
        lambda: [at(1, with_wrong(9, 100, tos=24 << 2 | 2))],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_dscp",
        "no file",
        lambda: [between(stream(100, tos=24 << 2))],
        skipped("without a cluster file, no DSCP is expected; 1 other port not judged either"),
        NO_CONTEXT,
    ),
    Case(
        "marking_ecn",
        "traffic class 104",
        lambda: [at(1, stream(100, tos=104))],
        wrong("fail", NODE1, "100 of 100 RDMA packets have a DSCP, but are not ECN-capable"),
    ),
    Case(
        "marking_ecn",
        "marked by a switch, or ECT(1)",
        lambda: [at(1, stream(100, tos=107), stream(50, Flow(qp=5, reverse_qp=6), tos=105), with_wrong(0, 9))],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_ecn",
        "not wanted",
        lambda: [at(1, stream(100, tos=104))],
        skipped("the policy has no ECN; 1 other port not judged either"),
        replace(CONTEXT, ecn=False),
    ),
    Case(
        "marking_priority",
        "another",
        lambda: [
            at(1, stream(90, tags=((VLAN, 3 << 13 | 7),)), stream(10, Flow(qp=5, reverse_qp=6), tags=((VLAN, 7),)))
        ],
        wrong("fail", NODE1, "10 of 100 tagged RDMA packets have another priority, mostly 0"),
    ),
    Case(
        "marking_priority",
        "few",
        lambda: [
            at(1, stream(91, tags=((VLAN, 3 << 13 | 7),)), stream(9, Flow(qp=5, reverse_qp=6), tags=((VLAN, 7),)))
        ],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_priority",
        "no tag",
        lambda: [at(1, stream(100))],
        skipped("the RDMA packets of node1/ens1 have no VLAN tag"),
    ),
    Case(
        "marking_some_nodes",
        "three of eight",
        lambda: [between(nodes(2, 8))],
        wrong("fail", "cluster", "marked on 3 of 8 nodes; not on node3, node4, node5, node6, node7"),
    ),
    Case(
        "marking_some_nodes",
        "two in hundred",
        lambda: [between(nodes(7, 9, unmarked=2))],
        wrong("fail", "cluster", "marked on 8 of 9 nodes; not on node8"),
    ),
    Case("marking_some_nodes", "one in hundred", lambda: [between(nodes(7, 9, unmarked=1))], ok("found nothing")),
    Case(
        "marking_some_nodes",
        "none",
        lambda: [between(stream(100, tos=0), stream(9, Flow(SECOND, FIRST, 7, 8), tos=0))],
        ok("found nothing"),
    ),
    Case(
        "marking_some_nodes",
        "one node",
        lambda: [at(1, stream(100))],
        skipped("packets of fewer than two nodes were recorded"),
    ),
    Case(
        "marking_rewritten",
        "some",
        lambda: rewritten(12),
        wrong(
            "fail",
            f"{NODE1} → {NODE2}",
            "the DSCP of 12 of 1,000 packets changed between node1 and node2 on rail0: 26 → 0",
        ),
    ),
    Case("marking_rewritten", "few", lambda: rewritten(9), ok("found nothing on 2 paths")),
    Case(
        "marking_rewritten",
        "one end",
        lambda: [at(1, stream(100))],
        skipped("node1/ens1 → node2/ens1 was recorded at one end only; 1 other path not judged either"),
    ),
    Case(
        "marking_notifications",
        "three",
        lambda: [at(2, notices(10, 3, tos=0))],
        wrong("warn", NODE2, "3 of 10 notifications have the wrong mark, mostly DSCP 0"),
    ),
    Case(
        "marking_notifications",
        "in the queue of the data",
        lambda: [at(2, notices(10, 10, tags=((VLAN, 3 << 13),)))],
        wrong("warn", NODE2, "10 of 10 notifications have the wrong mark, mostly DSCP 48"),
    ),
    Case(
        "marking_notifications",
        "two",
        lambda: [at(2, notices(10, 2, tos=0))],
        ok("found nothing on 1 port"),
    ),
    Case(
        "marking_notifications",
        "any mark",
        lambda: [between(notices(10, 10, tos=46 << 2))],
        ok("found nothing on 1 port"),
        NO_CONTEXT,
    ),
    Case(
        "marking_version",
        "some",
        lambda: [at(1, version1(11))],
        wrong("fail", NODE1, "11 of 1,000 packets are RoCEv1"),
    ),
    Case("marking_version", "few", lambda: [at(1, version1(9))], ok("found nothing on 2 ports")),
]
