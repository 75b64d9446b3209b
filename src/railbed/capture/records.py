"""An analysis as records: everything that screens and the report need to draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from railbed.capture.analysis.clocks import Clock
from railbed.capture.analysis.congestion import Episode, Reaction
from railbed.capture.analysis.journeys import Delay
from railbed.capture.analysis.results import Analysis, FlowView, RecordedFlow
from railbed.capture.analysis.traffic import Axis, select_congested
from railbed.capture.ladders import ladders_of
from railbed.model import events
from railbed.model.record import Event
from railbed.model.text import duration, plural, size

MOST_RATES = 64
"""Flows with rates over time: those with the most bytes."""
MOST_EPISODES = 20
MOST_BUCKETS = 400
LEAST_BUCKET = 10_000
"""Nanoseconds."""


def records_of(analysis: Analysis) -> Iterator[Event]:
    """Yield the clocks, the flows, the largest of them over time, and some messages packet by packet."""
    yield from _clocks(analysis)
    for flow in analysis.flows:
        yield _flow(analysis, flow)
    if analysis.span:
        axis = Axis.over(*analysis.span, width=LEAST_BUCKET, most=MOST_BUCKETS)
        for flow in list(analysis.carrying())[:MOST_RATES]:
            yield _rates(analysis, flow, axis)
    yield from _pauses(analysis)
    yield from _incasts(analysis)
    yield from ladders_of(analysis)


def _clocks(analysis: Analysis) -> Iterator[Event]:
    for recording, clock in zip(analysis.recordings, analysis.clocks, strict=True):
        if len(analysis.recordings) > 1:
            yield events.ClockAligned(
                subject=recording.name,
                message=_clock_text(clock.offset / 1e9, clock.error, clock.packets),
                offset=clock.offset / 1e9,
                drift=clock.drift,
                error=None if clock.error is None else clock.error / 1e9,
                packets=clock.packets,
            )


def _clock_text(offset: float, error: float | None, packets: int) -> str:
    if error is None:
        return "not aligned: no packets in both directions are in this and another recording"
    if not packets:
        return "the reference"
    way = "ahead" if offset >= 0 else "behind"
    known = f"known to ±{duration(error / 1e9)} from {plural(packets, 'packet')}"
    return f"{duration(abs(offset))} {way}, {known}"


def path_name(analysis: Analysis, flow: RecordedFlow) -> str:
    """Return `node/port → node/port`."""
    return f"{analysis.context.port(flow.key.source)} → {analysis.context.port(flow.key.destination)}"


def _flow(analysis: Analysis, flow: RecordedFlow) -> Event:
    main, receiver, context = flow.main, flow.at("receiver"), analysis.context
    places = [context.place(address) for address in (flow.key.source, flow.key.destination)]
    partner = analysis.partner(flow)
    arrived = receiver if receiver is not main else None
    sequence, messages = main.sequence, main.messages
    lost = _count_lost(flow)
    return events.Flow(
        subject=path_name(analysis, flow),
        message=_flow_text(main, lost[0]),
        id=flow.id,
        source=flow.key.source,
        destination=flow.key.destination,
        source_node=places[0].node if places[0] else None,
        destination_node=places[1].node if places[1] else None,
        rail=context.rail(flow.key.source) or None,
        qp=flow.key.qp,
        partner=partner.id if partner else None,
        partner_certainty=flow.partner.certainty if flow.partner and partner else None,
        transport=flow.transport,
        role=_role(main),
        recorded_at=[view.end for view in flow.views],
        began=flow.start / 1e9,
        ended=flow.stop / 1e9,
        packets=len(main.view.rows),
        bytes=main.bytes,
        payload_bytes=main.payload,
        dscp=_text_keys(main.marks.dscp),
        ecn=dict(main.marks.ecn),
        priority=_text_keys(main.marks.priority) or None,
        arrived=len(arrived.view.rows) if arrived else None,
        ecn_arrived=dict(arrived.marks.ecn) if arrived else None,
        full_packet_bytes=flow.path_size,
        messages=dict(messages.count),
        message_bytes_median=messages.median if messages.count else None,
        message_bytes_largest=messages.largest if messages.count else None,
        messages_per_second=messages.per_second,
        resent=sequence.resent,
        reordered=max(view.sequence.reordered for view in flow.views),
        lost=lost[0],
        uncaptured=lost[1],
        unresolved=lost[2],
        refusals=dict(main.answers.refusals) if main.answers else {},
        notifications=_notifications(flow, partner),
        round_trip=_round_trip(main),
        delay=_delay(flow.legs[-1].journey.delay, flow.legs[-1].journey.arrived) if flow.legs else None,
        reaction=_reaction(flow.reaction, main.clock) if flow.reaction else None,
    )


def _flow_text(view: FlowView, lost: int) -> str:
    parts = [plural(len(view.view.rows), "packet"), size(view.bytes)]
    parts += [f"{view.marks.ce:,} marked as congested"] if view.marks.ce else []
    parts += [f"{lost:,} lost"] if lost else []
    return ", ".join(parts)


def _text_keys(counts: object) -> dict[str, int]:
    assert isinstance(counts, dict)
    return {str(key): count for key, count in counts.items()}


def _role(view: FlowView) -> str:
    asks, answers = len(view.view.requests.rows), len(view.view.answers)
    if asks or answers:
        return "both" if asks and answers else "requests" if asks else "answers"
    return "datagrams" if len(view.view.datagrams) else "notifications"


def _count_lost(flow: RecordedFlow) -> tuple[int, int, int]:
    """Return packets that were lost, missed by a recorder, and unresolved: from both ends if possible."""
    if flow.legs:
        journeys = [leg.journey for leg in flow.legs]
        inside = flow.main.sequence.lost if flow.main.end == "sender" else 0
        return (
            inside + sum(len(journey.lost) for journey in journeys),
            sum(journey.uncaptured + journey.unsent for journey in journeys),
            sum(journey.unresolved for journey in journeys),
        )
    sequence = flow.views[-1].sequence
    return sequence.lost, sequence.uncaptured, sequence.unresolved


def _notifications(flow: RecordedFlow, partner: RecordedFlow | None) -> int:
    if flow.reaction:
        return flow.reaction.notices
    return len(partner.views[-1].view.notices) if partner else 0


def _round_trip(view: FlowView) -> events.Times | None:
    trips = view.round_trips
    if trips is None:
        return None
    return events.Times(count=trips.count, median=trips.median / 1e9, p99=trips.p99 / 1e9, longest=trips.longest / 1e9)


def _delay(delay: Delay | None, count: int) -> events.Times | None:
    if delay is None:
        return None
    return events.Times(count=count, median=delay.median / 1e9, p99=delay.p99 / 1e9, longest=delay.longest / 1e9)


def _reaction(reaction: Reaction, clock: Clock) -> events.Reactions:
    episodes = reaction.episodes
    return events.Reactions(
        episodes=len(episodes),
        slowed=reaction.slowed,
        unjudged=reaction.unjudged,
        before=median(episode.before for episode in episodes) if episodes else None,
        after=median(episode.after for episode in episodes) if episodes else None,
        reacted=_median_seconds(episodes, "reacted_after"),
        recovered=_median_seconds(episodes, "recovered_after"),
        first=[_episode(episode, clock) for episode in episodes[:MOST_EPISODES]],
    )


def _episode(episode: Episode, clock: Clock) -> events.ReactionEpisode:
    start, stop = clock.align(np.array([episode.start, episode.stop], np.int64)).tolist()
    return events.ReactionEpisode(
        start=start / 1e9,
        stop=stop / 1e9,
        notifications=episode.notices,
        before=episode.before,
        after=episode.after,
        reacted=None if episode.reacted_after is None else episode.reacted_after / 1e9,
        recovered=None if episode.recovered_after is None else episode.recovered_after / 1e9,
    )


def _median_seconds(episodes: Sequence[Episode], name: str) -> float | None:
    values = [value for episode in episodes if (value := getattr(episode, name)) is not None]
    return median(values) / 1e9 if values else None


def _rates(analysis: Analysis, flow: RecordedFlow, axis: Axis) -> Event:
    sent, arrived = flow.main, flow.views[-1]
    times = sent.clock.align(sent.view.times())
    marked = arrived.clock.align(arrived.view.times(select_congested(arrived.view, arrived.view.rows)))
    partner = analysis.partner(flow)
    notices = np.zeros(0, np.int64)
    if partner:
        last = partner.views[-1]
        notices = last.clock.align(last.view.times(last.view.notices))
    volume = axis.totals(times, sent.view.column("length"))
    return events.FlowRates(
        subject=path_name(analysis, flow),
        id=flow.id,
        start=axis.start / 1e9,
        width=axis.width / 1e9,
        bytes_per_second=[round(value, 1) for value in (volume * (1e9 / axis.width)).tolist()],
        packets=axis.totals(times).astype(int).tolist(),
        ce=axis.totals(marked).astype(int).tolist(),
        notifications=axis.totals(notices).astype(int).tolist(),
    )


def _pauses(analysis: Analysis) -> Iterator[Event]:
    for pause in analysis.pauses:
        clock = analysis.clock_of(pause.recording)
        began, ended = clock.align(np.array([pause.first, pause.last], np.int64)).tolist()
        which = "all priorities" if pause.priority is None else f"priority {pause.priority}"
        yield events.PortPaused(
            subject=pause.recording.name,
            message=f"{pause.sender} paused {which} {plural(pause.stops, 'time')}, {duration(pause.seconds)} in all",
            sender=pause.sender,
            priority=pause.priority,
            frames=pause.frames,
            stops=pause.stops,
            seconds=pause.seconds,
            longest=pause.longest,
            exact=pause.exact,
            began=began / 1e9,
            ended=ended / 1e9,
        )


def _incasts(analysis: Analysis) -> Iterator[Event]:
    for incast in analysis.incasts:
        senders = [analysis.context.node(sender) for sender in incast.senders]
        yield events.IncastSeen(
            subject=analysis.context.port(incast.receiver),
            message=f"{', '.join(senders)} sent {size(incast.peak)}/s at once",
            receiver=incast.receiver,
            senders=list(incast.senders),
            moments=incast.moments,
            overloaded=incast.overloaded,
            width=incast.width / 1e9,
            worst=incast.worst / 1e9,
            began=incast.first / 1e9,
            ended=incast.last / 1e9,
            bytes_per_second=incast.peak,
            share=incast.share,
        )
