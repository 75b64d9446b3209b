"""The plot of a comparison: every change on one scale, with its noise; and changes as text."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log10
from typing import Any

from railbed.model.text import number
from railbed.present.bench import message_size
from railbed.present.wording import JOIN, plural
from railbed.report.blocks import Figure
from railbed.report.compare.comparison import Changed, Outcome
from railbed.report.figures import label

MOST_DRAWN = 20
"""The number that fits on a sheet of paper."""
ROW_HEIGHT = 40
LONGEST_NAME = 62
FIRST = ("test", "stat", "size", "from", "node")
DERIVED = ("tool", "pair", "direction", "to")
"""Labels that follow from others."""
TICKS = (
    (0.5, 2.0, (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)),
    (0.25, 4.0, (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.0)),
    (0.1, 10.0, (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)),
    (0.0, float("inf"), (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5)),
)
"""Marks on the axis of changes, as after over before, for changes within these bounds."""
LEAST_SPAN, MARGIN = 1.15, 1.15
"""The axis is as wide as the changes need, but at least this; bars of noise may exceed it."""
MOST_FACTOR = 1e5
"""Larger changes are drawn at the edge."""
MOST_REACH = 20.0
LARGE = 2.0
"""From this factor on, a change is also shown as a factor: in percent, half and twice do not look alike."""
KINDS: dict[Outcome, tuple[str, str, str]] = {
    "changed": ("changed", "circle", "$c2"),
    "unchanged": ("unchanged", "circle", "$c1"),
    "unclear": ("inconclusive", "circle-open", "$c5"),
}


def changes(numbers: Sequence[Changed], shared: frozenset[tuple[str, str]]) -> Figure | None:
    """Return the plot: a dot for each change, a bar for its noise, the largest first; None without changes."""
    drawn = [
        changed for changed in numbers if changed.before > 0 and changed.after > 0 and changed.before != changed.after
    ][:MOST_DRAWN]
    if not drawn:
        return None
    dots = [_dots(drawn, outcome) for outcome in KINDS]
    left = len(numbers) - len(drawn)
    note = (
        "The dot is the change, the bar the range of chance; there is no bar if there are too few samples. The scale "
        "is logarithmic: half and twice are equally far from no change."
    )
    note += f" {plural(left, 'number is', 'numbers are')} not drawn." if left else ""
    line = {"color": "$ink", "width": 1}
    return Figure(
        title="Change from before to after",
        traces=[_noise(drawn), *(trace for trace in dots if trace["x"])],
        layout={
            "xaxis": _scale([_drawn_at(changed) for changed in drawn]),
            "yaxis": {"showticklabels": False, "range": [len(drawn) - 0.5, -0.8], "showgrid": False},
            "annotations": [_name(at, changed, shared) for at, changed in enumerate(drawn)],
            "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": line}],
            "hovermode": "closest",
        },
        note=note,
        height=80 + ROW_HEIGHT * len(drawn),
    )


def own_labels(changed: Changed, shared: frozenset[tuple[str, str]]) -> str:
    """Return the labels that distinguish a number from the others, without those that all numbers share."""
    labels = dict(changed.labels)
    own = {name: value for name, value in changed.labels if (name, value) not in shared and name not in DERIVED}
    way = {(end, labels[end]) for end in ("from", "to") if end in labels}
    if len(way) == 2 and not way <= shared:
        own["from"] = f"{labels['from']} > {labels['to']}"
    names = sorted(own, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return ", ".join(_label_text(name, own[name]) for name in names)


def _label_text(name: str, value: str) -> str:
    if name == "size" and value.isdigit():
        return message_size(int(value))
    return value if name in FIRST or value.startswith(name) else f"{name} {value}"


def with_sign(ratio: float) -> str:
    """Return a change in percent, from after over before."""
    percent = 100 * (ratio - 1)
    digits = ",.0f" if abs(percent) >= 100 else ".3g"
    return f"{percent:+{digits}}{JOIN}%".replace("-", "−") if percent else f"0{JOIN}%"


def change_in_words(changed: Changed) -> str:
    """Return a change in percent, and a large one also as a factor: ÷ 5.9 is as much as × 5.9."""
    if changed.share is None:
        return "from zero"
    words = with_sign(1 + changed.share)
    factor = changed.factor
    if factor is None or changed.before < 0 or 1 / LARGE < factor < LARGE:
        return words
    sign, times = ("×", factor) if factor > 1 else ("÷", 1 / factor)
    return f"{words} ({sign}{JOIN}{number(times, 3)})"


def _drawn_at(changed: Changed) -> float:
    return max(1 / MOST_FACTOR, min(MOST_FACTOR, changed.factor or 1.0))


def _dots(drawn: Sequence[Changed], outcome: Outcome) -> dict[str, Any]:
    name, symbol, colour = KINDS[outcome]
    chosen = [(at, changed) for at, changed in enumerate(drawn) if changed.judged.outcome == outcome]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [_drawn_at(changed) for _, changed in chosen],
        "y": [at for at, _ in chosen],
        "text": [label(f"{changed.name}, {changed.of}: {change_in_words(changed)}") for _, changed in chosen],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"size": 10, "color": colour, "symbol": symbol, "line": {"color": colour, "width": 2}},
        "cliponaxis": False,
    }


def _noise(drawn: Sequence[Changed]) -> dict[str, Any]:
    """Return the bars around no change: symmetric on this scale."""
    reaches = [
        exp(min(changed.judged.reach or 0.0, MOST_REACH)) if changed.judged.by_factor else 1.0 for changed in drawn
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "chance",
        "x": [1.0] * len(drawn),
        "y": list(range(len(drawn))),
        "hoverinfo": "skip",
        "marker": {"size": 1, "color": "$c6"},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [reach - 1 for reach in reaches],
            "arrayminus": [1 - 1 / reach for reach in reaches],
            "color": "$c6",
            "thickness": 5,
            "width": 0,
        },
    }


def _scale(ratios: Sequence[float]) -> dict[str, Any]:
    """Return the axis of changes: in percent, with the marks that fit."""
    low, high = min([*ratios, 1 / LEAST_SPAN]) / MARGIN, max([*ratios, LEAST_SPAN]) * MARGIN
    marks = next(marks for least, most, marks in TICKS if least <= low and high <= most)
    return {
        "type": "log",
        "range": [log10(low), log10(high)],
        "tickmode": "array",
        "tickvals": list(marks),
        "ticktext": [with_sign(mark) for mark in marks],
        "showgrid": True,
    }


def _name(at: int, changed: Changed, shared: frozenset[tuple[str, str]]) -> dict[str, Any]:
    """Return the name of a row: above it, so that it fits a narrow screen."""
    text = ", ".join(part for part in (changed.name, own_labels(changed, shared)) if part)
    short = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
    place = {"xref": "paper", "x": 0, "xanchor": "left", "y": at, "yanchor": "bottom", "yshift": 5}
    return {**place, "text": label(short), "showarrow": False, "bgcolor": "$paper"}
