"""Clocks that are ahead, behind and drift, aligned by the packets that two recordings have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.captures.cases.case import at, stream
from tests.captures.exchange import Network
from tests.captures.flows import WRAP, Flow
from tests.captures.truth import START, Packet

from railbed.capture.analysis.analyse import analyse


def exchange(count: int, seconds: float) -> list[Packet]:
    """Return requests with answers, spread over some time."""
    flow = Flow(gap=round(seconds * 1e9 / count), psn=WRAP - count // 2)
    return [packet for _ in range(count) for packet in (*flow.send(100), flow.ack(delay=30_000))]


@settings(max_examples=8, deadline=None)
@given(
    offset=st.integers(-(10**10), 10**10),
    drift=st.floats(-5e-5, 5e-5),
    seed=st.integers(0, 1000),
    delay=st.sampled_from([500, 20_000]),
)
def test_the_error_is_as_large_as_stated_or_smaller(offset: int, drift: float, seed: int, delay: int) -> None:
    waits = np.random.default_rng(seed).exponential(20_000, 1200).astype(int).tolist()
    network = Network(delay=delay, offset=offset, drift=drift, wait=lambda position: waits[position])
    recordings = network.ends(exchange(600, 4.0))
    reference, clock = analyse(recordings).clocks
    assert (reference.offset, reference.error) == (0.0, 0.0)
    assert clock.error is not None
    assert clock.error < 60_000
    second = recordings[1].packets
    for place in (0, len(second) // 2, len(second) - 1):
        recorded = second["time"][[place]]
        estimate = int((recorded - clock.align(recorded))[0])
        true = int(recorded[0]) - round((int(recorded[0]) - offset - START) / (1 + drift)) - START
        assert abs(estimate - true) <= clock.error + 1000


def test_clocks_are_aligned_through_a_third_recording() -> None:
    first, second = Network(offset=1_000_000).ends(exchange(100, 0.1))
    further = Flow(source="10.0.0.3", destination="10.0.0.2", qp=70, reverse_qp=71, gap=1_000_000)
    packets = [packet for _ in range(100) for packet in (*further.send(100), further.ack(delay=30_000))]
    third = at(3, [_moved(packet, 9_000_000, packet.source != "10.0.0.3") for packet in packets])
    both = at(
        2, _packets(exchange(100, 0.1), 1_000_000), [_moved(it, 1_000_000, it.source == "10.0.0.3") for it in packets]
    )
    assert len(second.packets) == 200
    clocks = analyse([first, both, third]).clocks
    assert [round(clock.offset / 1e6, 2) for clock in clocks] == [-1.0, 0.0, 8.0]
    assert all(clock.error is not None and clock.error < 20_000 for clock in clocks)


def _moved(packet: Packet, offset: int, arrives: bool) -> Packet:
    return replace(packet, time=packet.time + offset + (5000 if arrives else 0))


def _packets(packets: list[Packet], offset: int) -> list[Packet]:
    return [_moved(packet, offset, packet.source == "10.0.0.1") for packet in packets]


def test_without_common_packets_a_clock_is_not_aligned() -> None:
    clocks = analyse([at(1, stream(10)), at(3, stream(10, Flow(source="10.0.0.3", destination="10.0.0.4")))]).clocks
    assert [clock.error for clock in clocks] == [0.0, None]


def test_two_ports_of_a_node_share_a_clock() -> None:
    first, second = Network(offset=5_000_000).ends(exchange(50, 0.1))
    other = at(2, stream(10, Flow(source="10.1.0.2", destination="10.1.0.1")), addresses=("10.1.0.2",))
    clocks = analyse([first, second, other]).clocks
    assert abs(clocks[2].offset - clocks[1].offset) < 1
    assert clocks[2].error == clocks[1].error
