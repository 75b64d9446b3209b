"""The rate of the largest flows, with marks and notifications below, on one time axis; what senders did about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railbed.model.events import Flow, FlowRates, Reactions
from railbed.present.wording import plural, seconds
from railbed.report.blocks import (
    Block,
    Cell,
    Figure,
    Heading,
    TableBlock,
    TextBlock,
    Value,
    byte_count,
    count,
    duration,
)
from railbed.report.document import Section
from railbed.report.figures import COLOURS, label, plain
from railbed.report.reading.run import RunData

MOST_LINES = 8
MOST_RECEIVERS = 3
TIMES = ((2.0, 1.0, "s"), (2e-3, 1e-3, "ms"), (0.0, 1e-6, "µs"))
"""From which length on to use a unit, its seconds, its name."""
RATES = ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"))
COLUMNS = (
    "flow",
    "QP",
    "episodes",
    "slowed down in",
    "rate before",
    "lowest after",
    "reacted after",
    "recovered after",
)


@dataclass(frozen=True, slots=True)
class _Chart:
    title: str
    unit: str
    values: Sequence[Sequence[float]]
    """Of each flow, in each interval."""
    note: str = ""


def show(run: RunData) -> Sequence[Block] | None:
    """Show charts for the receivers with the most marks, then how senders reacted."""
    flows = {flow.id: flow for flow in run.of(Flow)}
    rates = [rate for rate in run.of(FlowRates) if rate.packets and rate.bytes_per_second and rate.width > 0]
    if not rates:
        return None
    receivers: dict[str, list[FlowRates]] = {}
    for rate in rates:
        receivers.setdefault(rate.subject.partition(" → ")[2], []).append(rate)
    ordered = sorted(receivers.items(), key=lambda item: _weight(item[1]), reverse=True)
    blocks: list[Block] = [TextBlock(_words(rates, len(ordered)))]
    for receiver, of_receiver in ordered[:MOST_RECEIVERS]:
        blocks += [Heading(f"To {receiver}")] if len(ordered) > 1 else []
        blocks += _charts(of_receiver, flows)
    reactions = [row for flow in flows.values() if flow.reaction for row in _reaction(flow, flow.reaction)]
    if reactions:
        blocks += [Heading("Reactions to notifications"), TableBlock(COLUMNS, reactions, numbers=COLUMNS[2:])]
    return blocks


def _weight(rates: Sequence[FlowRates]) -> tuple[int, float]:
    """Return what decides which receivers are drawn: marks and notifications, then bytes."""
    marks = sum(sum(rate.ce) + sum(rate.notifications) for rate in rates)
    return marks, sum(sum(rate.bytes_per_second) for rate in rates)


def _words(rates: Sequence[FlowRates], receivers: int) -> str:
    text = (
        f"{plural(len(rates), 'flow')} over {seconds(_length(rates[0]))}, in intervals of {seconds(rates[0].width)}. "
        "Rates are those at the sender; marks are counted at the receiver, notifications where the sender gets them. "
        "Times are those of the first recording's clock."
    )
    if receivers > MOST_RECEIVERS:
        text += f" The {MOST_RECEIVERS} of {receivers} receivers with the most marks are drawn."
    if not any(sum(rate.ce) for rate in rates):
        text += " No packet of these flows was marked as congested (CE)."
    if not any(sum(rate.notifications) for rate in rates):
        text += " No notification (CNP) about them was recorded."
    return text


def _length(rate: FlowRates) -> float:
    return rate.width * len(rate.packets)


def _charts(rates: Sequence[FlowRates], flows: Mapping[str, Flow]) -> Iterator[Figure]:
    """Yield the rate, the marks and the notifications of a receiver's flows; without marks, there is no such chart."""
    shown = sorted(rates, key=lambda rate: sum(rate.bytes_per_second), reverse=True)[:MOST_LINES]
    names = _names(shown, flows)
    highest = 8 * max(max(rate.bytes_per_second) for rate in shown)
    bits, unit = next(scale for scale in RATES if highest >= scale[0] or scale is RATES[-1])
    more = f"The {MOST_LINES} largest of {len(rates)} flows." if len(rates) > MOST_LINES else ""
    yield _figure(
        _Chart("Rate", unit, [[8 * it / bits for it in rate.bytes_per_second] for rate in shown], more), shown, names
    )
    for title, values in (
        ("Packets that arrive marked as congested (CE)", [rate.ce for rate in shown]),
        ("Congestion notifications (CNP)", [rate.notifications for rate in shown]),
    ):
        if any(map(sum, values)):
            yield _figure(_Chart(title, "", values), shown, names)


def _names(rates: Sequence[FlowRates], flows: Mapping[str, Flow]) -> dict[str, str]:
    """Return a short name for each flow: its sender, with the queue pair if that has several."""
    senders = {rate.id: rate.subject.partition(" → ")[0] for rate in rates}
    common = list(senders.values())
    return {
        key: f"{sender}, QP {flows[key].qp}" if common.count(sender) > 1 and key in flows else sender
        for key, sender in senders.items()
    }


def _figure(chart: _Chart, rates: Sequence[FlowRates], names: Mapping[str, str]) -> Figure:
    length = _length(rates[0])
    divisor, time_unit = next((divisor, name) for least, divisor, name in TIMES if length >= least)
    layout = {
        # The same range and margin in every chart, so that the same time is at the same place.
        "xaxis": {"range": [0, plain(length / divisor)], "ticksuffix": f" {time_unit}"},
        "yaxis": {"rangemode": "tozero", "ticksuffix": f" {chart.unit}".rstrip(), "automargin": False, "nticks": 4},
        "margin": {"l": 72},
        "meta": "time",
    }
    traces = [
        _trace(names[rate.id], rate, values, COLOURS[place % len(COLOURS)], divisor)
        for place, (rate, values) in enumerate(zip(rates, chart.values, strict=True))
    ]
    return Figure(title=chart.title, traces=traces, layout=layout, note=chart.note, height=170 if chart.unit else 120)


def _trace(name: str, rate: FlowRates, values: Sequence[float], colour: str, divisor: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(name),
        "x": [plain((place + 0.5) * rate.width / divisor) for place in range(len(values))],
        "y": [plain(value) for value in values],
        "line": {"color": colour, "width": 1.3, "shape": "hvh"},
    }


def _reaction(flow: Flow, reaction: Reactions) -> Iterator[tuple[Cell, ...]]:
    if reaction.episodes:
        yield (
            flow.subject,
            str(flow.qp),
            count(reaction.episodes),
            count(reaction.slowed),
            _rate(reaction.before),
            _rate(reaction.after),
            duration(reaction.reacted) if reaction.reacted is not None else "",
            duration(reaction.recovered) if reaction.recovered is not None else "",
        )


def _rate(value: float | None) -> Cell:
    return "" if value is None else Value(value, "byte/s", f"{byte_count(value)}/s")


SECTION = Section(name="packets_rates", title="Rate, marks and notifications", order=12, show=show)
