"""Cases of rules about congestion and what senders do about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from railbed.capture.analysis.context import Context
from railbed.capture.packets import Recording
from tests.captures.cases.case import CONTEXT, SOFTWARE, Case, at, ok, skipped, stream, wrong
from tests.captures.exchange import Network
from tests.captures.flows import Flow, in_order, marked
from tests.captures.truth import START, Packet

NODE1, NODE2 = "node1/ens1", "node2/ens1"
GAP = 20_000
QUIET = 16_000_000
"""Longer than the pause that ends an episode."""


def congested(count: int, *, notices: int = 0) -> list[Packet]:
    """Return a stream of which some packets arrive marked."""
    flow = Flow()
    packets = stream(100, flow)
    packets[:] = [
        marked(packet) if place < count and packet.opcode == 4 else packet
        for place, packet in enumerate(sorted(packets, key=lambda packet: packet.opcode != 4))
    ]
    return [*packets, *(flow.notify() for _ in range(notices))]


def notified(episodes: int, notices: int, *, slows: Collection[int] = (), before: int = 4_000_000) -> list[Packet]:
    """Return a sender with episodes of notifications, in some of which it slows down to half its rate."""
    flow = Flow(gap=GAP)
    packets: list[Packet] = []
    starts = [START + before + number * QUIET for number in range(episodes)]
    while flow.time < starts[-1] + QUIET:
        packets += flow.send(1000)
        slow = any(0 < flow.time - starts[number] < 4_000_000 for number in slows)
        flow.time += GAP if slow else 0
        if len(packets) % 50 == 1:
            packets.append(flow.ack(delay=100))
    for start in starts:
        packets += [replace(flow.notify(), time=start + number * 100_000) for number in range(notices)]
    return packets


def lost_notices(lost: int, sent: int) -> Sequence[Recording]:
    """Return both ends of a stream whose receiver sends notifications, of which some get lost."""
    flow = Flow()
    packets = stream(200, flow)
    notices = [replace(flow.notify(), time=START + 1000 + 1000 * number) for number in range(sent)]
    ordered = in_order([*packets, *notices])
    places = [place for place, packet in enumerate(ordered) if packet.opcode == 0x81]
    return Network(lost=places[:lost]).ends(ordered)


def with_speed(speed: float) -> Context:
    """Return a context with another speed of the links: the sender sends 0.42 Gb/s."""
    return replace(CONTEXT, places={address: replace(it, speed=speed) for address, it in CONTEXT.places.items()})


CASES = [
    Case(
        "reaction_no_notification",
        "fifty",
        lambda: [at(2, congested(50))],
        wrong("fail", NODE2, "50 packets from node1 arrived marked as congested (CE), and no notification left"),
    ),
    Case("reaction_no_notification", "forty-nine", lambda: [at(2, congested(49))], ok("found nothing on 1 path")),
    Case(
        "reaction_no_notification",
        "answered",
        lambda: [at(2, congested(100, notices=1))],
        ok("found nothing on 1 path"),
    ),
    Case(
        "reaction_no_notification",
        "software",
        lambda: [at(2, congested(50))],
        skipped("node2/ens1 is a software device, which sends no notifications"),
        SOFTWARE,
    ),
    Case(
        "reaction_ignored",
        "ten",
        lambda: [at(1, notified(1, 10))],
        wrong(
            "fail",
            NODE1,
            "10 notifications in 1 episode, and the rate stayed: 52.9 MB/s before, 52.9 MB/s at the lowest…",
        ),
    ),
    Case("reaction_ignored", "nine", lambda: [at(1, notified(1, 9))], ok("found nothing on 1 path")),
    Case(
        "reaction_ignored",
        "slows down",
        lambda: [at(1, notified(1, 10, slows=[0]))],
        ok("found nothing on 1 path"),
    ),
    Case(
        "reaction_ignored",
        "slower once in five times",
        lambda: [at(1, notified(5, 5, slows=[1]))],
        wrong("fail", NODE1, "25 notifications in 5 episodes…"),
    ),
    Case(
        "reaction_ignored",
        "slower twice in five times",
        lambda: [at(1, notified(5, 5, slows=[1, 3]))],
        ok("found nothing on 1 path"),
    ),
    Case(
        "reaction_ignored",
        "four at a time",
        lambda: [at(1, notified(3, 4))],
        skipped("node1 had too few notifications at a time to slow it down"),
    ),
    Case(
        "reaction_ignored",
        "more than half the link",
        lambda: [at(1, notified(3, 4))],
        wrong("fail", NODE1, "12 notifications in 3 episodes…"),
        with_speed(0.8),
    ),
    Case(
        "reaction_ignored",
        "less than half the link",
        lambda: [at(1, notified(3, 4))],
        skipped("node1 had too few notifications at a time to slow it down"),
        with_speed(0.9),
    ),
    Case(
        "reaction_ignored",
        "from the beginning",
        lambda: [at(1, notified(1, 10, before=100_000))],
        skipped("node1 had no time without notifications to compare with"),
    ),
    Case(
        "reaction_ignored",
        "software",
        lambda: [at(1, notified(1, 10))],
        skipped("node1/ens1 is a software device, which does not react to notifications"),
        SOFTWARE,
    ),
    Case(
        "reaction_lost",
        "three of sixty",
        lambda: lost_notices(3, 60),
        wrong("fail", f"{NODE2} → {NODE1}", "3 of 60 notifications were lost between node2 and node1 on rail0"),
    ),
    Case("reaction_lost", "three of sixty-one", lambda: lost_notices(3, 61), ok("found nothing on 1 path")),
    Case("reaction_lost", "two", lambda: lost_notices(2, 10), ok("found nothing on 1 path")),
]
