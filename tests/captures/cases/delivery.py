"""Cases of rules about what arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from railbed.capture.packets import Icrc, Recording
from tests.captures.cases.case import FIRST, Case, at, between, ok, skipped, stream, wrong
from tests.captures.exchange import Network, Transfer
from tests.captures.flows import Flow
from tests.captures.truth import Packet

PATH, BACK = "node1/ens1 → node2/ens1", "node2/ens1 → node1/ens1"


def lost(count: int, **known: Any) -> tuple[Recording, Recording]:
    """Return both ends of a transfer in which packets get lost, far from each other."""
    transfer = Transfer().send(400, [20 + 60 * number for number in range(count)])
    first, second = (replace(recording, **known) for recording in transfer.ends())
    return first, second


def lost_inside(count: int, syndrome: int = 0x60) -> Sequence[Recording]:
    """Return both ends of a transfer in which packets get lost before they leave the first port."""
    transfer = Transfer().send(400, [20 + 60 * number for number in range(count)])
    left = [packet for place, packet in enumerate(transfer.packets) if place not in transfer.lost]
    return Network().ends(packet if packet.syndrome != 0x60 else replace(packet, syndrome=syndrome) for packet in left)


def places_of_answers(count: int) -> list[int]:
    """Return where the first answers of a stream are, for a network that loses them."""
    return [place for place, packet in enumerate(stream(100)) if packet.source != FIRST][1 : count + 1]


def refused(count: int, syndrome: int) -> list[Packet]:
    """Return a stream with refusals; every refused packet is sent again."""
    flow = Flow()
    packets = []
    for _ in range(20):
        packets += [*flow.send(1000), flow.ack()]
    for _ in range(count):
        flow.time += 20_000
        packet = flow.send(1000)[0]
        packets += [packet, flow.ack(packet.psn, syndrome=syndrome)]
        flow.time += 20_000
        packets += [flow.repeat(packet), flow.ack(packet.psn)]
    return packets


def swapped(count: int, total: int) -> list[Packet]:
    """Return a stream of which some packets changed places with the next."""
    flow = Flow()
    packets = [flow.send(1000)[0] for _ in range(total)]
    for number in range(count):
        place = 10 + 10 * number
        first, second = packets[place], packets[place + 1]
        packets[place], packets[place + 1] = _at(second, first.time), _at(first, second.time)
    return [*packets, flow.ack()]


def _at(packet: Packet, time: int) -> Packet:
    return replace(packet, time=time)


def unanswered(copies: int, *, refusal: bool = False) -> list[Packet]:
    """Return a stream whose last packet is sent several times without an answer."""
    flow = Flow()
    packets = stream(30, flow)
    last = flow.send(1000)[0]
    packets.append(last)
    for _ in range(copies - 1):
        flow.time += 4_000_000
        packets.append(flow.repeat(last))
        packets += [flow.rnr(last.psn)] if refusal else []
    return packets


def corrupt(count: int, total: int) -> list[Packet]:
    """Return a stream of which some packets have a wrong checksum."""
    flow = Flow()
    return [*stream(total - count, flow), *(flow.send(1000, icrc=Icrc.WRONG)[0] for _ in range(count))]


def damaged_on_the_way() -> tuple[Recording, Recording]:
    """Return both ends of a stream of which some packets arrive damaged."""
    return at(1, corrupt(0, 100)), at(2, corrupt(5, 100))


CASES = [
    Case(
        "delivery_lost",
        "three",
        lambda: lost(3),
        wrong("fail", PATH, "3 of 433 packets were lost between node1 and node2 on rail0, not at the ends"),
    ),
    Case("delivery_lost", "two", lambda: lost(2), ok("found nothing on 2 paths")),
    Case(
        "delivery_lost",
        "answers",
        lambda: Network(lost=places_of_answers(3)).ends(stream(100)),
        wrong("fail", BACK, "3 of 10 packets were lost between node2 and node1 on rail0, not at the ends"),
    ),
    Case(
        "delivery_lost",
        "one end",
        lambda: lost(3)[:1],
        skipped("node1/ens1 → node2/ens1 was recorded at one end only; 1 other path not judged either"),
    ),
    Case(
        "delivery_lost",
        "two, and the recorder dropped some",
        lambda: lost(2, dropped=3),
        (("unknown", "cluster", "found nothing on 2 paths, but the recorders dropped 6 packets"),),
    ),
    Case(
        "delivery_at_sender",
        "three",
        lambda: lost_inside(3),
        wrong("fail", "node1/ens1", "3 packets to node2 were lost in node1, before they left on rail0"),
    ),
    Case("delivery_at_sender", "two", lambda: lost_inside(2), ok("found nothing on 1 path")),
    Case("delivery_at_sender", "on the way", lambda: lost(3), ok("found nothing on 1 path")),
    Case("delivery_at_sender", "not recorded", lambda: lost_inside(3, 0x1F), ok("found nothing on 1 path")),
    Case(
        "delivery_at_sender",
        "the other end",
        lambda: lost_inside(3)[1:],
        skipped("packets from node1 were not recorded where they were sent"),
    ),
    Case("delivery_lost", "before they left", lambda: lost_inside(5), ok("found nothing on 2 paths")),
    Case(
        "delivery_repeated",
        "three refusals",
        lambda: lost(3)[:1],
        wrong(
            "warn",
            PATH,
            "33 packets sent again between node1 and node2 on rail0; 3 requests of the receiver for lost packets",
        ),
    ),
    Case(
        "delivery_repeated",
        "time-outs",
        lambda: [at(1, unanswered(4))],
        wrong(
            "warn",
            PATH,
            "3 packets sent again between node1 and node2 on rail0; 0 requests of the receiver for lost packets, "
            "3 time-outs of up to 4.00 ms",
        ),
    ),
    Case("delivery_repeated", "two", lambda: [at(1, unanswered(3))], ok("found nothing on 1 path")),
    Case("delivery_repeated", "not ready", lambda: [at(1, refused(5, 0x2C))], ok("found nothing on 1 path")),
    Case(
        "delivery_not_ready",
        "three",
        lambda: [at(1, refused(3, 0x2C))],
        wrong(
            "warn",
            "node2/ens1",
            "3 packets from node1 were refused: no receive buffer; the sender waits up to 640 µs each time",
        ),
    ),
    Case("delivery_not_ready", "two", lambda: [at(1, refused(2, 0x2C))], ok("found nothing on 1 path")),
    Case(
        "delivery_refused",
        "remote access",
        lambda: [at(1, refused(1, 0x62))],
        wrong("fail", "node2/ens1", "node2 refused requests from node1 once: remote access"),
    ),
    Case("delivery_refused", "sequence", lambda: [at(1, refused(5, 0x60))], ok("found nothing on 1 path")),
    Case(
        "delivery_reordered",
        "ten",
        lambda: [at(2, swapped(10, 1000))],
        wrong("warn", PATH, "10 of 1,000 packets arrived out of order between node1 and node2 on rail0"),
    ),
    Case("delivery_reordered", "nine", lambda: [at(2, swapped(9, 1000))], ok("found nothing on 1 path")),
    Case(
        "delivery_reordered",
        "a few of many",
        lambda: [at(2, swapped(10, 10_001))],
        ok("found nothing on 1 path"),
    ),
    Case(
        "delivery_reordered", "many of many", lambda: [at(2, swapped(10, 9_999))], wrong("warn", PATH, "10 of 9,999…")
    ),
    Case(
        "delivery_reordered",
        "where they were sent",
        lambda: [at(1, stream(100))],
        skipped("packets from node1 were recorded only where they were sent"),
    ),
    Case(
        "delivery_unanswered",
        "four copies",
        lambda: [at(1, unanswered(4))],
        wrong("fail", PATH, "node2 does not answer: node1 sent the same packet 4 times"),
    ),
    Case("delivery_unanswered", "three copies", lambda: [at(1, unanswered(3))], ok("found nothing on 1 path")),
    Case(
        "delivery_unanswered",
        "not ready",
        lambda: [at(1, unanswered(4, refusal=True))],
        ok("found nothing on 1 path"),
    ),
    Case(
        "delivery_corrupt",
        "a single packet",
        lambda: [at(2, corrupt(1, 99))],
        wrong("fail", PATH, "the checksum (ICRC) of 1 of 99 packets is wrong"),
    ),
    Case(
        "delivery_corrupt",
        "half",
        lambda: [at(2, corrupt(50, 100))],
        wrong("fail", PATH, "the checksum (ICRC) of 50 of 100 packets is wrong"),
    ),
    Case("delivery_corrupt", "none", lambda: [at(2, corrupt(0, 100))], ok("found nothing on 2 paths")),
    Case(
        "delivery_corrupt",
        "most",
        lambda: [at(2, corrupt(51, 100))],
        ok("found nothing on 1 path; 51 of 100 checksums do not fit: packets were recorded…"),
    ),
    Case(
        "delivery_corrupt",
        "not computed yet at the sender, wrong at the receiver",
        lambda: [at(1, corrupt(100, 100)), at(2, corrupt(1, 100))],
        wrong("fail", PATH, "the checksum (ICRC) of 1 of 100 packets is wrong"),
    ),
    Case(
        "delivery_corrupt",
        "not computed yet at the sender, right at the receiver",
        lambda: [at(1, corrupt(100, 100)), at(2, corrupt(0, 100))],
        ok("found nothing on 2 paths"),
    ),
    Case(
        "delivery_corrupt",
        "cut off",
        lambda: [between(stream(100, icrc=Icrc.NOT_CAPTURED)[:10])],
        skipped("no complete packets from node1 to node2 were recorded"),
    ),
]
