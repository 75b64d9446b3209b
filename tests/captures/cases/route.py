"""Cases of rules about the way that packets take, and pauses on it."""

from __future__ import annotations

from dataclasses import replace

from railbed.capture.analysis.context import Context
from tests.captures.cases.case import CONTEXT, NO_CONTEXT, Case, at, between, ok, place, skipped, stream, wrong
from tests.captures.flows import Flow
from tests.captures.truth import START, Packet, pause, pfc

PATH = "node1/ens1 → node2/ens1"
SECOND = 1_000_000_000
SLOW = replace(CONTEXT, places={address: replace(it, speed=0.1) for address, it in CONTEXT.places.items()})


def incast(moments: int, each: int = 7) -> list[Packet]:
    """Return two senders that send to one receiver in the same milliseconds; 0.1 Gb/s carry 11 of their packets."""
    packets = []
    for number in (1, 2):
        flow = Flow(source=f"10.0.0.{number}", destination="10.0.0.3", qp=10 + number, reverse_qp=20 + number)
        for moment in range(moments):
            flow.time = START + moment * 1_000_000 + number
            packets += [flow.send(1000)[0] for _ in range(each)]
        flow.time = START + 10_000_000
        packets += flow.send(10)
    return packets


def sized(mtu: int) -> list[Packet]:
    """Return messages of several packets each."""
    flow = Flow(mtu=mtu)
    return [*flow.write(10_000), flow.ack(), *flow.write(10_000), flow.ack()]


def with_mtu(mtu: int) -> Context:
    """Return a context in which node2 has another MTU."""
    return replace(CONTEXT, places={**CONTEXT.places, "10.0.0.2": place(2, mtu=mtu)})


def connections(count: int, ports: int) -> list[Packet]:
    """Return connections of two nodes that use some UDP source ports."""
    flows = [
        Flow(qp=10 + number, reverse_qp=30 + number, psn=5000 * number, source_port=50_000 + number % ports)
        for number in range(count)
    ]
    return [packet for flow in flows for packet in stream(20, flow)]


def pauses(count: int, quanta: int, gap: int, priority: int | None = 3) -> list[Packet]:
    """Return pause frames at equal intervals; None for a pause of all priorities."""
    times = [START + number * gap for number in range(count)]
    return [pause(quanta, time=time) if priority is None else pfc({priority: quanta}, time=time) for time in times]


MILLISECOND = (START, START + 1_000_000)
LONG = (START, START + SECOND)
FULL = 0xFFFF
MAC = "02:00:00:00:00:01"
CASES = [
    Case(
        "route_incast",
        "two moments",
        lambda: [between(incast(2))],
        wrong(
            "warn",
            "node3/ens1",
            "2 nodes (node1, node2) sent up to 118% of its link's speed at once, in 2 moments of 1.00 ms",
        ),
        SLOW,
    ),
    Case("route_incast", "one moment", lambda: [between(incast(1))], ok("found nothing"), SLOW),
    Case("route_incast", "within the speed", lambda: [between(incast(3, 5))], ok("found nothing"), SLOW),
    Case(
        "route_incast",
        "unknown speed",
        lambda: [between(incast(2))],
        skipped("the link speed of 10.0.0.3 is not in the cluster file"),
        NO_CONTEXT,
    ),
    Case(
        "route_mtu",
        "half",
        lambda: [at(1, sized(2048))],
        wrong("warn", PATH, "full packets hold 2,048 bytes"),
        with_mtu(4172),
    ),
    Case(
        "route_mtu",
        "as large as possible",
        lambda: [at(1, sized(2048))],
        ok("found nothing on 1…"),
        with_mtu(4171),
    ),
    Case(
        "route_mtu",
        "smaller than others",
        lambda: [between(sized(1024), Flow(source="10.0.0.3", mtu=4096, qp=7, reverse_qp=8).write(10_000))],
        wrong("warn", "10.0.0.1 → 10.0.0.2", "full packets hold 1,024 bytes"),
        NO_CONTEXT,
    ),
    Case(
        "route_mtu",
        "small messages",
        lambda: [at(1, stream(10))],
        skipped("no message from node1 to node2 is larger than a packet; 1 other path not judged either"),
    ),
    Case(
        "route_ports",
        "one for four",
        lambda: [at(1, connections(4, 1))],
        wrong("warn", PATH, "4 connections share the UDP source port 50000"),
    ),
    Case("route_ports", "two for four", lambda: [at(1, connections(4, 2))], ok("found nothing on 1 path")),
    Case(
        "route_ports",
        "one for three",
        lambda: [at(1, connections(3, 1))],
        skipped("fewer than 4 connections from node1 to node2; 1 other path not judged either"),
    ),
    Case(
        "pausing_storm",
        "a tenth of the time",
        lambda: [at(1, pauses(10, 200, 50_000), span=MILLISECOND)],
        wrong(
            "fail",
            "node1/rail0",
            f"{MAC} paused priority 3 for 102 µs (10% of the time), 10.2 µs at once, with 10 frames",
        ),
    ),
    Case(
        "pausing_storm",
        "nearly a tenth",
        lambda: [at(1, pauses(10, 190, 50_000), span=MILLISECOND)],
        ok("found nothing on 1 recording"),
    ),
    Case(
        "pausing_storm",
        "ten milliseconds at once",
        lambda: [at(1, pauses(10, FULL, 800_000), span=LONG)],
        wrong("fail", "node1/rail0", f"{MAC} paused priority 3 for 10.6 ms (1% of the time), 10.6 ms at once…"),
    ),
    Case(
        "pausing_storm",
        "nine milliseconds at once",
        lambda: [at(1, pauses(10, FULL, 600_000), span=LONG)],
        ok("found nothing on 1 recording"),
    ),
    Case(
        "pausing_storm",
        "few frames",
        lambda: [at(1, pauses(9, 2000, 100_000), span=MILLISECOND)],
        ok("found nothing on 1 recording"),
    ),
    Case(
        "pausing_storm",
        "no frames",
        lambda: [at(1, stream(10))],
        skipped(
            "node1/rail0 has no pause frames, which a card's sniffer or a mirror port rarely shows: "
            "`railbed watch` counts them"
        ),
    ),
    Case(
        "pausing_priority",
        "another",
        lambda: [at(1, pauses(3, 100, 1000, priority=4))],
        wrong("fail", "node1/rail0", f"{MAC} paused priority 4 with 3 frames"),
    ),
    Case(
        "pausing_priority",
        "all",
        lambda: [at(1, pauses(3, 100, 1000, priority=None))],
        wrong("fail", "node1/rail0", f"{MAC} paused all priorities (802.3x) with 3 frames"),
    ),
    Case(
        "pausing_priority",
        "two frames",
        lambda: [at(1, pauses(2, 100, 1000, priority=4), pauses(9, 100, 1000))],
        ok("found nothing on 1 recording"),
    ),
    Case(
        "pausing_priority",
        "frames that resume",
        lambda: [at(1, pauses(9, 0, 1000, priority=4))],
        ok("found nothing on 1 recording"),
    ),
]
