"""Cases of rules about the recorders themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railbed.capture.packets import Recording
from tests.captures.cases.case import FIRST, NO_CONTEXT, SECOND, Case, at, between, ok, skipped, stream, wrong
from tests.captures.exchange import Network, Transfer
from tests.captures.flows import Flow
from tests.captures.truth import Packet


def doubled(unique: int, copies: int) -> list[Packet]:
    """Return a stream with a second copy of some packets."""
    flow = Flow()
    packets = [flow.send(1000)[0] for _ in range(unique)]
    return [*packets, *(replace(packet, time=packet.time + 10) for packet in packets[:copies])]


def far_apart(delay: int) -> Sequence[Recording]:
    """Return both ends of a long path."""
    return Network(delay=delay).ends(Transfer(delay=delay).send(50).packets)


def one_way(count: int) -> list[Packet]:
    """Return one direction of a stream."""
    return [packet for packet in stream(count) if packet.source == FIRST]


CASES = [
    Case(
        "recorder_dropped",
        "some",
        lambda: [at(1, stream(10), dropped=3)],
        wrong("warn", "node1/rail0", "the recorder dropped 3 packets of 14: the verdict is incomplete"),
    ),
    Case("recorder_dropped", "none", lambda: [at(1, stream(10))], ok("found nothing on 1 recording")),
    Case(
        "recorder_dropped",
        "nobody counted",
        lambda: [between(stream(10))],
        skipped("nobody counted what the recorder of mirror.pcap dropped"),
    ),
    Case(
        "recorder_cut",
        "in the middle of a packet",
        lambda: [between(stream(10), truncated=True)],
        wrong("warn", "mirror.pcap", "the file ends in the middle of a packet after 11 packets: cut"),
    ),
    Case(
        "recorder_cut",
        "damaged, and therefore not cut",
        lambda: [between(stream(10), truncated=True, damage="mirror.pcap is damaged at byte 7")],
        wrong("warn", "mirror.pcap", "mirror.pcap is damaged at byte 7"),
    ),
    Case("recorder_cut", "complete", lambda: [between(stream(10))], ok("found nothing on 1 recording")),
    Case(
        "recorder_empty",
        "others show traffic",
        lambda: [at(1), at(2, stream(10))],
        wrong(
            "fail",
            "node1/rail0",
            "no RDMA packet among 0 packets, though other recordings show 11 packets of it: the card bypasses…",
        ),
    ),
    Case(
        "recorder_empty",
        "nothing known",
        lambda: [between(total=12)],
        wrong(
            "warn",
            "mirror.pcap",
            "no RDMA packet among 12 packets: there was no RDMA traffic, or the card bypasses the kernel",
        ),
        NO_CONTEXT,
    ),
    Case("recorder_empty", "one packet", lambda: [at(1, stream(10)[:1])], ok("found nothing on 1 recording")),
    Case(
        "recorder_one_way",
        "twenty",
        lambda: [between(one_way(20))],
        wrong("warn", "mirror.pcap", f"only one direction was recorded: {FIRST} → {SECOND}"),
    ),
    Case("recorder_one_way", "nineteen", lambda: [between(one_way(19))], ok("found nothing on 1 recording")),
    Case("recorder_one_way", "both", lambda: [between(stream(20))], ok("found nothing on 1 recording")),
    Case(
        "recorder_twice",
        "all",
        lambda: [between(doubled(10, 10))],
        wrong("warn", "cluster", "10 of 20 packets follow one with the same number: they were recorded twice"),
    ),
    Case(
        "recorder_twice",
        "too few to judge",
        lambda: [between(doubled(9, 9))],
        skipped("mirror.pcap has too few requests of connections"),
    ),
    Case(
        "recorder_twice",
        "forty in hundred",
        lambda: [between(doubled(60, 40))],
        wrong("warn", "cluster", "40 of 100 packets follow one with the same number: they were recorded twice"),
    ),
    Case("recorder_twice", "fewer", lambda: [between(doubled(61, 39))], ok("found nothing on 1 recording")),
    Case(
        "recorder_clocks",
        "far apart",
        lambda: far_apart(1_200_000),
        wrong("warn", "node2/rail0", "the clock is aligned only to ±1.20 ms"),
    ),
    Case("recorder_clocks", "not so far apart", lambda: far_apart(900_000), ok("found nothing")),
    Case(
        "recorder_clocks",
        "nothing in common",
        lambda: [at(1, stream(10)), at(3, stream(10, Flow(source="10.0.0.3", destination="10.0.0.4")))],
        wrong("warn", "node3/rail0", "the clock could not be aligned: no packets in both directions are in this and…"),
    ),
    Case(
        "recorder_clocks",
        "a single recording",
        lambda: [at(1, stream(10))],
        skipped("there are no two recordings to compare"),
    ),
]
