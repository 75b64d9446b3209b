"""Analysis of generated captures: every number equals the truth that generated them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.captures import flows
from tests.captures.exchange import FIRST, Transfer
from tests.captures.flows import WRAP

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.results import Analysis, RecordedFlow


def data_flow(analysis: Analysis) -> RecordedFlow:
    return next(flow for flow in analysis.flows if (flow.key.source, flow.key.qp) == (FIRST, 0x11))


def test_a_clean_exchange() -> None:
    transfer = Transfer().send(100)
    analysis = analyse(transfer.ends(offset=3_000_000))
    flow = data_flow(analysis)
    assert (flow.transport, flow.path_size) == ("RC", None)
    assert flow.partner is not None
    assert (flow.partner.key.qp, flow.partner.certainty) == (0x22, "certain")
    assert [view.end for view in flow.views] == ["sender", "receiver"]
    for view in flow.views:
        assert len(view.view.rows) == 100
        assert view.payload == 100_000
        assert view.messages.count == {"send": 100}
        assert (view.messages.smallest, view.messages.median, view.messages.largest) == (1000, 1000, 1000)
        assert (view.sequence.holes, view.sequence.resent, view.sequence.lost) == (0, 0, 0)
        assert view.data.dscp == {26: 100}
        assert view.data.ecn == {"ect0": 100}
        assert view.answers is not None
        assert view.answers.refusals == {}
    assert flow.views[0].round_trips is not None
    assert (flow.views[0].round_trips.median, flow.views[0].round_trips.count) == (10_000, 100)
    assert flow.views[1].round_trips is not None
    assert flow.views[1].round_trips.longest == 0
    journey = flow.legs[0].journey
    assert (journey.sent, journey.arrived, len(journey.lost), journey.unsent) == (100, 100, 0, 0)


@pytest.mark.parametrize("lose", [{5}, {5, 6, 7}, {5, 50}, {98}])
@pytest.mark.parametrize("psn", [0, WRAP - 20])
def test_losses_at_both_ends(lose: set[int], psn: int) -> None:
    transfer = Transfer(flows.Flow(psn=psn)).send(100, lose)
    flow = data_flow(analyse(transfer.ends()))
    sender, receiver = flow.views
    assert sender.sequence.resent == transfer.requests - 100
    assert sender.sequence.holes == 0
    assert sender.answers is not None
    assert sender.answers.refusals == {"sequence": transfer.refusals}
    assert sender.sequence.causes == {"sequence": transfer.refusals}
    assert receiver.sequence.lost == len(lose)
    assert (receiver.sequence.uncaptured, receiver.sequence.unresolved) == (0, 0)
    assert receiver.messages.count == {"send": 100}
    assert len(flow.legs[0].journey.lost) == len(lose)


@settings(max_examples=20, deadline=None)
@given(
    count=st.integers(20, 80),
    lose=st.sets(st.integers(1, 70), max_size=12),
    psn=st.sampled_from([0, 1, 7777, WRAP - 1, WRAP - 30]),
    offset=st.integers(-(10**9), 10**9),
)
def test_any_losses_are_what_was_generated(count: int, lose: set[int], psn: int, offset: int) -> None:
    transfer = Transfer(flows.Flow(psn=psn)).send(count, lose).send(20)
    analysis = analyse(transfer.ends(offset=offset))
    flow = data_flow(analysis)
    sender, receiver = flow.views
    journey = flow.legs[0].journey
    assert sender.sequence.resent == transfer.requests - count - 20
    assert len(journey.lost) == len(transfer.lost)
    assert (journey.uncaptured, journey.unresolved, journey.unsent) == (0, 0, 0)
    assert sender.messages.count == receiver.messages.count == {"send": count + 20}
    assert receiver.answers is not None
    assert receiver.answers.refusals.get("sequence", 0) == transfer.refusals
    lost = {packet.psn for place, packet in enumerate(transfer.packets) if place in transfer.lost}
    assert {int(psn) for psn in sender.recording.packets["psn"][journey.lost]} == lost
    clock = next(clock for clock in analysis.clocks if clock.packets)
    assert clock.error is not None
    assert abs(abs(clock.offset) - abs(offset)) <= clock.error
