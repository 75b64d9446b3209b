"""Recordings in, everything that is known of them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from railbed.capture.analysis.answers import answers_to, round_trips
from railbed.capture.analysis.checksums import Checksums, checksums_of
from railbed.capture.analysis.clocks import Clock, ClockLink, Differences, align, compare_clocks
from railbed.capture.analysis.congestion import Incast, Load, Reaction, incast_of, reaction_of
from railbed.capture.analysis.context import Context
from railbed.capture.analysis.journeys import Journey, differences, join
from railbed.capture.analysis.pairing import Partner, nearest_addresses, partners_of
from railbed.capture.analysis.pauses import Paused, pauses_of
from railbed.capture.analysis.results import Analysis, FlowView, Leg, RecordedFlow
from railbed.capture.analysis.sequence import fitting_size_of, full_size_of, judge_sequence, order_of
from railbed.capture.analysis.traffic import marks_of, messages_of
from railbed.capture.analysis.views import End, FlowKey, Numbers, Rows, View, Views, end_of, own_addresses, views_of
from railbed.capture.opcodes import ROLE, Role, transport
from railbed.capture.packets import Recording
from railbed.model.record import Certainty

ORDER: tuple[End, ...] = ("sender", "between", "receiver")
SURENESS: tuple[Certainty, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True, slots=True)
class _Part:
    """One recording, before its flows are joined with those of others."""

    index: int
    recording: Recording
    views: Mapping[FlowKey, View]
    checksums: Mapping[FlowKey, Checksums]
    partners: Mapping[FlowKey, Partner]
    left_out: int


def analyse(recordings: Sequence[Recording], context: Context | None = None) -> Analysis:
    """Return what the recordings show together; without a context, nothing is expected of addresses and marks."""
    context = context or Context()
    parts = [_part(index, views_of(recording, context)) for index, recording in enumerate(recordings)]
    parts = [replace(part, views=views) for part, views in zip(parts, _with_ends(parts), strict=True)]
    clocks = _clocks(parts)
    partners = _best_partners(parts)
    keys = sorted({key for part in parts for key in part.views})
    flows = [_flow(key, parts, clocks, partners) for key in keys]
    by_key = {flow.key: flow for flow in flows}
    flows = [_with_reaction(flow, by_key) for flow in flows]
    flows.sort(key=lambda flow: -max(view.bytes for view in flow.views))
    return Analysis(
        recordings=tuple(recordings),
        context=context,
        clocks=tuple(clocks),
        flows=tuple(replace(flow, id=f"f{number}") for number, flow in enumerate(flows, 1)),
        pauses=tuple(_pauses(recordings, context)),
        incasts=tuple(_incasts(flows, context, clocks)),
        left_out=sum(part.left_out for part in parts),
    )


def _part(index: int, views: Views) -> _Part:
    by_key = {view.key: view for view in views.views}
    return _Part(index, views.recording, by_key, checksums_of(views.views), partners_of(views.views), views.left_out)


def _with_ends(parts: Sequence[_Part]) -> list[Mapping[FlowKey, View]]:
    """Return the views of each part, with the ends of those that the recordings do not name inferred."""
    owners = nearest_addresses([(part.views, part.partners) for part in parts])
    return [
        {key: replace(view, end=end_of(key, own)) if own else view for key, view in part.views.items()}
        for part, own in zip(parts, owners, strict=True)
    ]


def _best_partners(parts: Sequence[_Part]) -> Mapping[FlowKey, Partner]:
    """Return the partner of each flow, from the recording that is surest."""
    best: dict[FlowKey, Partner] = {}
    for part in parts:
        for key, partner in part.partners.items():
            if key not in best or SURENESS.index(partner.certainty) < SURENESS.index(best[key].certainty):
                best[key] = partner
    return best


def _clocks(parts: Sequence[_Part]) -> list[Clock]:
    links: dict[tuple[int, int], ClockLink] = {}
    same = []
    for first in parts:
        for second in parts[first.index + 1 :]:
            if first.recording.device and first.recording.device == second.recording.device:
                same.append((first.index, second.index))
            elif link := compare_clocks(_between(first, second), _between(second, first)):
                links[first.index, second.index] = link
    return align(len(parts), links, same)


def _between(first: _Part, second: _Part) -> Differences:
    """Return the delays of packets that pass the first recorder before the second."""
    pairs = [
        differences(view, second.views[key])
        for key, view in first.views.items()
        if key in second.views and ORDER.index(view.end) < ORDER.index(second.views[key].end)
    ]
    none = np.zeros(0, np.int64)
    return Differences(
        np.concatenate([pair.sent for pair in pairs] or [none]),
        np.concatenate([pair.later for pair in pairs] or [none]),
    )


def _flow(
    key: FlowKey, parts: Sequence[_Part], clocks: Sequence[Clock], partners: Mapping[FlowKey, Partner]
) -> RecordedFlow:
    partner = partners.get(key)
    holders = sorted((part for part in parts if key in part.views), key=lambda part: ORDER.index(part.views[key].end))
    pairs = [(part.views[key], part.views.get(partner.key) if partner else None) for part in holders]
    both = [view for pair in pairs for view in pair if view is not None]
    path_size = full_size_of(*both)
    views = tuple(
        _flow_view(*pair, clocks[part.index], path_size or fitting_size_of(*both), part.checksums[key])
        for part, pair in zip(holders, pairs, strict=True)
    )
    opcodes = views[0].view.column("opcode", _telling_rows(views[0].view)[:1])
    legs = (
        Leg(sent=sent, arrived=arrived, journey=_journey(sent, arrived))
        for sent, arrived in pairwise(views)
        if sent.end != arrived.end
    )
    return RecordedFlow(
        id="",
        key=key,
        transport=transport(int(opcodes[0])),
        partner=partner,
        path_size=path_size,
        views=views,
        legs=tuple(legs),
    )


def _telling_rows(view: View) -> Rows:
    """Return rows that show the transport: anything but notifications, if there is anything."""
    return next(rows for rows in (view.requests.rows, view.answers, view.datagrams, view.rows) if len(rows))


def _flow_view(view: View, partner: View | None, clock: Clock, path_size: int, checksums: Checksums) -> FlowView:
    order = order_of(view, path_size)
    answers = None
    trips = None
    if partner is not None and len(view.requests.rows):
        answers = answers_to(view.requests, view.times(view.requests.rows), partner)
        trips = round_trips(view, order.new, view.requests.psn[order.behind], answers)
    role = ROLE[view.column("opcode")]
    return FlowView(
        view=view,
        clock=clock,
        marks=marks_of(view, view.rows),
        data=marks_of(view, view.rows[(role == Role.REQUEST) | (role == Role.DATA)]),
        sequence=judge_sequence(view, order, answers),
        messages=messages_of(view, order),
        answers=answers,
        round_trips=trips,
        checksums=checksums,
    )


def _journey(sent: FlowView, arrived: FlowView) -> Journey:
    return join(sent.view, arrived.view, (sent.clock, arrived.clock), sent.answers)


def _with_reaction(flow: RecordedFlow, flows: Mapping[FlowKey, RecordedFlow]) -> RecordedFlow:
    """Add how the sender reacts: from a recording with its packets and the notifications to it."""
    back = flows.get(flow.partner.key) if flow.partner else None
    for view in flow.views:
        other = next((it.view for it in back.views if it.recording is view.recording), None) if back else None
        rows = view.view.rows[ROLE[view.view.column("opcode")] != Role.NOTICE]
        if other is not None and len(other.notices) and len(rows) > 1:
            times, lengths = view.view.times(rows), view.view.column("length", rows)
            return replace(flow, reaction=_reaction(times, lengths, other))
    return flow


def _reaction(times: Numbers, lengths: Numbers, other: View) -> Reaction:
    return reaction_of(times, lengths, other.times(other.notices), other.notices)


def _pauses(recordings: Sequence[Recording], context: Context) -> Iterator[Paused]:
    for recording in recordings:
        places = [context.place(address) for address in own_addresses(recording, context)]
        speeds = {place.speed for place in places if place}
        yield from pauses_of(recording, speeds.pop() if len(speeds) == 1 else None)


def _incasts(flows: Sequence[RecordedFlow], context: Context, clocks: Sequence[Clock]) -> Iterator[Incast]:
    """Yield when several senders loaded one receiver, from the views closest to the senders."""
    error = max((clock.error or 0.0 for clock in clocks), default=0.0)
    loads: dict[str, list[Load]] = {}
    for flow in flows:
        view = flow.main
        times = view.clock.align(view.view.times())
        load = Load(flow.key.source, times, view.view.column("length"), int(view.view.rows[0]))
        loads.setdefault(flow.key.destination, []).append(load)
    for receiver, of_receiver in sorted(loads.items()):
        place = context.place(receiver)
        incast = incast_of(receiver, of_receiver, place.speed if place else None, error)
        if incast:
            yield incast
