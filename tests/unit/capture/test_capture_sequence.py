"""Sequence numbers, answers and messages: what was lost, repeated, refused or only not recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.captures.cases.case import FIRST, at, between
from tests.captures.exchange import Network, Transfer
from tests.captures.flows import WRAP, Flow, in_order
from tests.captures.truth import START, Packet

from railbed.capture.analysis import views
from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.results import FlowView
from railbed.capture.analysis.results import RecordedFlow as FlowResult
from railbed.capture.analysis.views import unwrap
from railbed.capture.packets import Packets, Recording


def flow_of(*recordings: Recording, source: str = FIRST) -> FlowResult:
    flows = analyse(recordings).flows
    return next(flow for flow in flows if flow.key.source == source and len(flow.main.view.requests.rows))


def counts(view: FlowView) -> dict[str, int]:
    sequence = view.sequence
    names = ("holes", "reordered", "resent", "lost", "uncaptured", "unresolved")
    return {name: value for name in names if (value := getattr(sequence, name))}


def without(packets: Iterable[Packet], psns: Collection[int]) -> list[Packet]:
    """Return packets of a recorder that missed some requests."""
    return [packet for packet in packets if packet.source != FIRST or packet.psn not in psns]


@given(st.lists(st.integers(-1000, 1000), max_size=50), st.integers(0, WRAP - 1))
def test_numbers_go_on_behind_the_wrap(steps: list[int], start: int) -> None:
    numbers = np.cumsum([start, *steps]) + WRAP
    assert unwrap(numbers % WRAP).tolist() == numbers.tolist()


@pytest.mark.parametrize("psn", [0, WRAP - 3])
def test_reads_use_a_number_for_each_packet_of_data(psn: int) -> None:
    flow = Flow(psn=psn)
    packets = [*flow.read(5000), *flow.write(3000), flow.ack(), *flow.read(1), *flow.read(1024), *flow.send(10)]
    result = flow_of(at(1, packets, [flow.ack()]))
    assert result.path_size == 1024
    assert counts(result.main) == {}
    assert result.main.messages.count == {"read": 3, "write": 1, "send": 1}
    assert (result.main.messages.bytes, result.main.messages.largest) == (5000 + 3000 + 1 + 1024 + 10, 5000)
    assert result.main.round_trips is not None
    assert result.main.round_trips.count == 5


def test_the_size_of_packets_follows_from_reads_without_their_data() -> None:
    flow = Flow(mtu=2048)
    packets = [packet for _ in range(5) for packet in flow.read(5000)]
    result = flow_of(between(packet for packet in packets if packet.source == FIRST))
    assert result.path_size is None
    assert counts(result.main) == {}


def test_a_read_that_is_repeated_from_the_middle() -> None:
    flow = Flow(psn=10)
    packets = [*flow.read(4096), *flow.send(1), flow.ack()]
    again = replace(packets[0], psn=12, message=2048, time=flow.time + 9_000_000)
    result = flow_of(at(1, packets, [again]))
    assert counts(result.main) == {"resent": 1}
    assert result.main.sequence.causes == {"time-out": 1}
    assert result.main.messages.count == {"read": 1, "send": 1}


def test_refusals_by_reason() -> None:
    flow = Flow()
    packets = [*flow.send(10), *(flow.nak(0, reason=reason) for reason in (0, 1, 1, 2, 2, 2, 3, 3, 3, 3))]
    packets += [flow.rnr(0, timer=timer) for timer in (0, 14, 31)]
    answers = flow_of(at(1, packets)).main.answers
    assert answers is not None
    assert answers.refusals == {
        "sequence": 1,
        "invalid request": 2,
        "remote access": 3,
        "remote operation": 4,
        "not ready": 3,
    }
    assert answers.longest_wait == 0.65536


def test_causes_of_repeats_and_the_time_lost() -> None:
    flow = Flow()
    first, second, third = (flow.send(100)[0] for _ in range(3))
    flow.time += 10_000
    packets = [first, second, third, flow.ack(0), flow.rnr(1, delay=6000)]
    flow.time += 100_000
    packets += [flow.repeat(second), flow.repeat(third), flow.ack(1)]
    flow.time += 4_000_000
    packets += [flow.repeat(third), flow.ack(2)]
    view = flow_of(at(1, packets)).main
    assert counts(view) == {"resent": 3}
    assert view.sequence.causes == {"not ready": 1, "time-out": 1}
    assert view.sequence.longest_stall == 4_001_000


@pytest.mark.parametrize("psn", [0, WRAP - 25])
def test_what_only_the_recorder_missed_was_not_lost(psn: int) -> None:
    transfer = Transfer(Flow(psn=psn)).send(100)
    missed = {(psn + number) % WRAP for number in (20, 21, 22, 60)}
    sender, receiver = (list(half) for half in _halves(transfer))
    result = flow_of(at(1, sender), at(2, without(receiver, missed)))
    assert counts(result.views[1]) == {"holes": 2, "uncaptured": 4}
    journey = result.legs[0].journey
    assert (len(journey.lost), journey.uncaptured, journey.unresolved, journey.unsent) == (0, 4, 0, 0)
    result = flow_of(at(1, without(sender, missed)), at(2, receiver))
    assert counts(result.views[0]) == {"holes": 2, "uncaptured": 4}
    assert (len(result.legs[0].journey.lost), result.legs[0].journey.unsent) == (0, 4)


def _halves(transfer: Transfer) -> tuple[list[Packet], list[Packet]]:
    """Return the packets of a transfer as each port records them."""
    arrived = [replace(packet, time=packet.time + 5000) for packet in transfer.packets]
    halves = ([], []) if not arrived else ([*transfer.packets], [*transfer.packets])
    for half, address in zip(halves, (FIRST, "10.0.0.2"), strict=True):
        half[:] = in_order(
            [sent if sent.source == address else came for sent, came in zip(transfer.packets, arrived, strict=True)]
        )
    return halves


def test_what_is_missing_without_answers_is_unresolved() -> None:
    transfer = Transfer().send(50)
    requests = [packet for packet in transfer.packets if packet.source == FIRST]
    assert counts(flow_of(at(2, without(requests, {10, 11}))).main) == {"holes": 1, "unresolved": 2}


def test_a_refused_packet_that_never_came_was_lost() -> None:
    flow = Flow()
    packets = [flow.send(10)[0] for _ in range(10)]
    assert counts(flow_of(at(2, packets[:4], packets[5:], [flow.nak(4)])).main) == {"holes": 1, "lost": 1}


def test_a_single_packet_that_is_sent_again_was_lost_and_not_late() -> None:
    flow = Flow()
    packets = [flow.send(10)[0] for _ in range(10)]
    nak = flow.nak(4)
    flow.time += 50_000
    again = flow.repeat(packets[4])
    assert counts(flow_of(at(2, packets[:4], packets[5:], [nak, again])).main) == {"holes": 1, "lost": 1, "resent": 1}
    assert counts(flow_of(at(2, packets[:4], packets[5:], [again])).main) == {"holes": 1, "reordered": 1}
    slow = replace(again, time=packets[5].time + 1_000_000)
    assert counts(flow_of(at(2, packets[:4], packets[5:], [slow])).main) == {"holes": 1, "lost": 1, "resent": 1}


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(12)), st.sampled_from([0, WRAP - 5]))
def test_another_order_is_neither_loss_nor_repeat(order: list[int], psn: int) -> None:
    flow = Flow(psn=psn)
    packets = [flow.send(10)[0] for _ in range(14)]
    mixed = [packets[0], *(packets[place + 1] for place in order), packets[13]]
    arrived = [replace(packet, time=START + 100 * number) for number, packet in enumerate(mixed)]
    view = flow_of(at(2, arrived)).main
    late = sum(number < max(order[:place], default=-1) for place, number in enumerate(order))
    assert view.sequence.reordered == late
    assert (view.sequence.lost, view.sequence.resent, view.sequence.unresolved) == (0, 0, 0)
    assert view.messages.count == {"send": 14}


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.sets(st.integers(1, 70), max_size=6))
def test_the_order_of_the_file_makes_no_difference(chance: Random, lose: set[int]) -> None:
    recordings = Transfer(Flow(psn=WRAP - 30)).send(60, lose).ends(marked=range(5, 25))
    shuffled = [_shuffled(recording, chance) for recording in recordings]
    plain, mixed = analyse(recordings).flows, analyse(shuffled).flows
    for first, second in zip(plain, mixed, strict=True):
        assert first.key == second.key
        assert [counts(view) for view in first.views] == [counts(view) for view in second.views]
        assert [view.marks for view in first.views] == [view.marks for view in second.views]
        numbers = [
            sorted(flow.main.recording.packets["number"][flow.legs[0].journey.lost].tolist())
            for flow in (first, second)
        ]
        assert numbers[0] == numbers[1]


def _shuffled(recording: Recording, chance: Random) -> Recording:
    # Packets of the same nanosecond have no order but that of the file.
    times = recording.packets["time"].tolist()
    ranks = {time: chance.random() for time in sorted(set(times))}
    places = sorted(range(len(times)), key=lambda place: (ranks[times[place]], place))
    columns = {name: column[places] for name, column in recording.packets.columns.items()}
    return replace(recording, packets=Packets(columns, recording.packets.addresses, recording.packets.pauses))


def test_more_flows_than_can_be_analysed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_FLOWS", 3)
    analysis = analyse([between(Packet(qp=2 + number % 5, time=START + number) for number in range(22))])
    assert sorted(len(flow.main.view.rows) for flow in analysis.flows) == [4, 5, 5]
    assert analysis.left_out == 8


def test_round_trips_leave_out_what_was_sent_twice() -> None:
    transfer = Transfer().send(100, [20])
    view = flow_of(*transfer.ends()).main
    assert view.round_trips is not None
    assert view.round_trips.count == 100 - view.sequence.resent
    assert (view.round_trips.median, view.round_trips.p99, view.round_trips.longest) == (10_000, 10_000, 10_000)


def test_the_slowest_answer_is_known() -> None:
    network = Network(wait=lambda position: 70_000 if position == 3 else 0)
    flow = Flow(gap=20_000)
    packets = in_order([packet for _ in range(10) for packet in (*flow.send(10), flow.ack(delay=5000))])
    view = flow_of(*network.ends(packets)).main
    assert view.round_trips is not None
    assert view.recording.packets["psn"][view.round_trips.longest_row] == 1
