"""An analysis as records: typed, complete, and drawn from both ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tests.captures.cases.case import CONTEXT, at, between, place, stream
from tests.captures.cases.reaction import notified
from tests.captures.cases.route import incast, pauses
from tests.captures.exchange import Transfer

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context
from railbed.capture.records import MOST_BUCKETS, records_of
from railbed.model.events import ClockAligned, Flow, FlowRates, IncastSeen, Ladder, PortPaused
from railbed.model.record import Event
from railbed.store import read_record, to_line

E = TypeVar("E", bound=Event)


def of_kind(kind: type[E], records: Sequence[Event]) -> list[E]:
    return [record for record in records if isinstance(record, kind)]


def exchange() -> list[Event]:
    transfer = Transfer().send(200, [20, 50, 90])
    return list(records_of(analyse(transfer.ends(offset=3_000_000, marked=range(100, 150)), CONTEXT)))


def test_every_record_comes_back_from_its_line() -> None:
    for record in [*exchange(), *records_of(analyse([at(1, notified(1, 10, slows=[0]))], CONTEXT))]:
        line = to_line(record)
        assert to_line(read_record(line)) == line


def test_a_flow_has_the_counts_of_both_ends() -> None:
    flow, answers = of_kind(Flow, exchange())
    assert flow.subject == "node1/ens1 → node2/ens1"
    assert (flow.packets, flow.arrived, flow.lost, flow.resent) == (233, 230, 3, 33)
    assert flow.refusals == {"sequence": 3}
    assert (flow.role, answers.role, flow.partner, answers.partner) == ("requests", "answers", "f2", "f1")
    assert flow.ecn == {"ect0": 233}
    assert flow.ecn_arrived is not None
    assert answers.ecn_arrived is not None
    assert flow.ecn_arrived["ce"] + answers.ecn_arrived["ce"] == 50
    assert flow.message == "233 packets, 247 kB, 3 lost"


def test_rates_add_up_to_the_counts() -> None:
    records = exchange()
    (rates,) = of_kind(FlowRates, records)
    flow = of_kind(Flow, records)[0]
    assert len(rates.packets) <= MOST_BUCKETS
    assert sum(rates.packets) == flow.packets
    assert round(sum(rates.bytes_per_second) * rates.width) == flow.bytes
    assert flow.ecn_arrived is not None
    assert sum(rates.ce) == flow.ecn_arrived["ce"]


def test_a_ladder_shows_a_lost_packet_the_refusal_and_the_repeat() -> None:
    ladder = next(ladder for ladder in of_kind(Ladder, exchange()) if ladder.why == "a lost packet")
    lost = next(step for step in ladder.steps if step.note == "lost")
    assert (lost.psn, lost.to, lost.right) == (20, "right", None)
    refusal = next(step for step in ladder.steps if step.note == "sequence")
    again = next(step for step in ladder.steps if step.note == "sent again")
    assert (refusal.psn, refusal.to, again.psn) == (20, "left", 20)
    for step in ladder.steps:
        if step is not lost:
            assert step.left is not None
            assert step.right is not None
            assert round(abs(step.right - step.left) * 1e9) == 5000
            assert (step.right > step.left) == (step.to == "right")
    assert ladder.file == "node1-rail0.pcapng"


def test_clocks_are_recorded_if_there_are_several() -> None:
    reference, second = of_kind(ClockAligned, exchange())
    assert reference.message == "the reference"
    assert second.message.startswith("3.00 ms ahead, known to ±5.00 µs from ")
    assert not of_kind(ClockAligned, list(records_of(analyse([between(stream(10))]))))


def test_the_sender_reacts() -> None:
    flow = of_kind(Flow, list(records_of(analyse([at(1, notified(2, 10, slows=[0, 1]))], CONTEXT))))[0]
    assert flow.notifications == 20
    assert flow.reaction is not None
    assert (flow.reaction.episodes, flow.reaction.slowed, flow.reaction.unjudged) == (2, 2, 0)
    assert flow.reaction.before is not None
    assert flow.reaction.after is not None
    assert 0.45 < flow.reaction.after / flow.reaction.before < 0.55
    assert flow.reaction.reacted is not None
    assert flow.reaction.reacted < 0.003
    assert flow.reaction.recovered is not None
    assert 0.002 < flow.reaction.recovered < 0.006
    assert [episode.notifications for episode in flow.reaction.first] == [10, 10]


def test_pauses_and_incast_are_recorded() -> None:
    context = replace(CONTEXT, places={**CONTEXT.places, "10.0.0.3": place(3, speed=0.1)})
    records = list(records_of(analyse([at(1, pauses(10, 200, 50_000)), between(incast(2))], context)))
    (paused,) = of_kind(PortPaused, records)
    assert (paused.priority, paused.stops, round(paused.seconds * 1e6, 1), paused.exact) == (3, 10, 102.4, True)
    (incast_event,) = of_kind(IncastSeen, records)
    assert (incast_event.senders, incast_event.overloaded) == (["10.0.0.1", "10.0.0.2"], 2)
    assert incast_event.message == "node1, node2 sent 14.8 MB/s at once"


def test_nothing_gives_nothing() -> None:
    assert list(records_of(analyse([], Context()))) == []
    assert list(records_of(analyse([between()]))) == []
