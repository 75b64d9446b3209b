"""Ladder diagrams: the packets around a few selected messages, in both directions and at both ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railbed.capture.analysis.answers import NOT_READY, REFUSALS
from railbed.capture.analysis.journeys import TOLERANCE
from railbed.capture.analysis.results import Analysis, FlowView, RecordedFlow
from railbed.capture.analysis.traffic import CE
from railbed.capture.analysis.views import Numbers, Rows
from railbed.capture.opcodes import opcode_name
from railbed.model import events
from railbed.model.record import Event

BEFORE, AFTER = 6, 24
"""Packets that are shown before and after the selected one."""
LATEST = 1_000_000_000
"""Nanoseconds in which a packet arrives, or not at all."""


@dataclass(frozen=True, slots=True)
class _Selected:
    flow: RecordedFlow
    row: int
    """In the recording of the flow's main view."""
    why: str


def ladders_of(analysis: Analysis) -> Iterator[Event]:
    """Yield a ladder for each kind of message that is worth a look, and for a usual one."""
    drawn: set[tuple[str, int]] = set()
    for selected in _select(analysis):
        key = selected.flow.id, selected.row
        if key not in drawn:
            drawn.add(key)
            yield _ladder(analysis, selected)


def _select(analysis: Analysis) -> Iterator[_Selected]:
    """Yield the packets around which to draw."""
    flows = [flow for flow in analysis.flows if len(flow.main.view.requests.rows)]
    losing = max(flows, key=lambda flow: sum(len(leg.journey.lost) for leg in flow.legs), default=None)
    if losing and any(len(leg.journey.lost) for leg in losing.legs[:1]):
        yield _Selected(losing, int(losing.legs[0].journey.lost[0]), "a lost packet")
    resending = max(flows, key=lambda flow: flow.main.sequence.resent, default=None)
    if resending and resending.main.sequence.resent:
        yield _Selected(resending, int(resending.main.sequence.resent_rows[0]), "a packet that was sent again")
    waiting = max(flows, key=_longest, default=None)
    if waiting and waiting.main.round_trips:
        yield _Selected(waiting, waiting.main.round_trips.longest_row, "the slowest answer")
    if flows and len(rows := flows[0].main.messages.first_rows):
        yield _Selected(flows[0], int(rows[len(rows) // 2]), "a usual message")


def _longest(flow: RecordedFlow) -> int:
    return flow.main.round_trips.longest if flow.main.round_trips else 0


def _ladder(analysis: Analysis, selected: _Selected) -> Event:
    flow, context = selected.flow, analysis.context
    here = flow.main
    partner = analysis.partner(flow)
    back = _in_recording(partner, here)
    rows = _rows_around(here, back, selected.row)
    origin = int(here.clock.align(here.view.times(rows[:1]))[0])
    there = flow.at("receiver") if here.end != "receiver" else None
    steps = _steps(_Direction.of(flow, here, rows), "right", origin)
    steps += _steps(_Direction.of(partner, back, rows), "left", origin) if partner and back else []
    return events.Ladder(
        subject=f"{context.port(flow.key.source)} → {context.port(flow.key.destination)}",
        message=f"around {selected.why}",
        id=flow.id,
        why=selected.why,
        left=context.node(flow.key.source),
        right=context.node(flow.key.destination),
        start=origin / 1e9,
        file=here.recording.file or None,
        other_file=(there.recording.file or None) if there else None,
        steps=sorted(steps, key=lambda step: step.number),
    )


def _in_recording(flow: RecordedFlow | None, view: FlowView) -> FlowView | None:
    return next((other for other in flow.views if other.recording is view.recording), None) if flow else None


def _rows_around(here: FlowView, back: FlowView | None, row: int) -> Rows:
    """Return the rows of both directions around one, in order of time."""
    rows = np.concatenate([_near(view, here.recording.packets["time"][row]) for view in (here, back) if view])
    times = here.view.times(rows)
    ordered: Rows = rows[np.argsort(times, kind="stable")]
    place = int(np.flatnonzero(ordered == row)[0])
    return ordered[max(0, place - BEFORE) : place + AFTER + 1]


def _near(view: FlowView, time: int) -> Rows:
    """Return the rows of a view within LATEST of a time of its clock."""
    times = view.view.times()
    return view.view.rows[np.searchsorted(times, time - LATEST) : np.searchsorted(times, time + LATEST, side="right")]


@dataclass(frozen=True, slots=True)
class _Direction:
    """Some packets of a flow in one recording, and those around them in the other."""

    view: FlowView
    rows: Rows
    lost: frozenset[int]
    resent: frozenset[int]
    other: FlowView | None
    nearby: Rows
    shortest: int
    """The shortest time between the two recorders, in nanoseconds."""
    sends: bool
    """Whether `view` is closer to the sender than `other`."""

    @classmethod
    def of(cls, flow: RecordedFlow, view: FlowView, rows: Rows) -> _Direction:
        """Return the packets of a flow among some rows of a recording."""
        own = rows[np.isin(rows, view.view.rows)]
        leg = next((leg for leg in flow.legs if view is leg.sent or view is leg.arrived), None)
        sends = leg is not None and leg.sent is view
        other = None if leg is None else leg.arrived if sends else leg.sent
        lost = np.intersect1d(own, leg.journey.lost) if leg and sends else own[:0]
        resent = np.intersect1d(own, view.sequence.resent_rows)
        nearby = own[:0]
        if other and len(own):
            at = int(view.clock.align(view.view.times(own[:1]))[0])
            nearby = _near(other, at + round(other.clock.offset + other.clock.drift * (at - other.clock.at)))
        shortest = leg.journey.delay.shortest - TOLERANCE if leg and leg.journey.delay else 0
        return cls(view, own, frozenset(lost.tolist()), frozenset(resent.tolist()), other, nearby, shortest, sends)

    def elsewhere(self, row: int, time: int) -> int | None:
        """Return when the other recorder saw a packet, by the reference clock; None if it did not."""
        if self.other is None or row in self.lost:
            return None
        packets, theirs = self.view.recording.packets, self.other.recording.packets
        same = np.ones(len(self.nearby), np.bool_)
        for name in ("psn", "opcode", "syndrome"):
            same &= theirs[name][self.nearby] == packets[name][row]
        times: Numbers = self.other.clock.align(theirs["time"][self.nearby[same]])
        # The first copy that arrives after this one was sent, or the last that was sent before this one arrived.
        fitting = times[times >= time + self.shortest] if self.sends else times[times <= time - self.shortest]
        return None if not len(fitting) else int(fitting[0 if self.sends else -1])

    def note(self, row: int) -> str:
        """Return what is special about a packet."""
        packets = self.view.recording.packets
        syndrome = int(packets["syndrome"][row])
        if row in self.lost:
            return "lost"
        if syndrome >> 5 == 3:
            return REFUSALS.get(syndrome & 31, "refused")
        if syndrome >> 5 == 1:
            return NOT_READY
        if row in self.resent:
            return "sent again"
        return "CE" if packets["tos"][row] & 3 == CE else ""


def _steps(direction: _Direction, to: str, origin: int) -> list[events.LadderStep]:
    view, packets = direction.view, direction.view.recording.packets
    at_left = (view.end != "receiver") if to == "right" else (view.end != "sender")
    steps = []
    for row in direction.rows.tolist():
        time = int(view.clock.align(packets["time"][[row]])[0])
        far = direction.elsewhere(row, time)
        near_seconds, far_seconds = (time - origin) / 1e9, None if far is None else (far - origin) / 1e9
        steps.append(
            events.LadderStep(
                to=to,
                text=opcode_name(int(packets["opcode"][row])).split(" ", 1)[-1].removeprefix("RDMA "),
                psn=int(packets["psn"][row]),
                number=int(packets["number"][row]),
                left=near_seconds if at_left else far_seconds,
                right=far_seconds if at_left else near_seconds,
                note=direction.note(row),
            )
        )
    return steps
