"""A against B: the answer of every comparison, each repeat of both arms, and the differences with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railbed.model.events import FirstVisitDone
from railbed.model.record import Finding, Verdict
from railbed.present.bench import SHOWN
from railbed.present.wording import NOT_KNOWN, plural
from railbed.report.blocks import (
    Block,
    Cell,
    Entries,
    Entry,
    Figure,
    MarkCell,
    TableBlock,
    TextBlock,
    bare,
    count,
    share,
)
from railbed.report.document import Headline, Section
from railbed.report.figures import COLOURS, label, plain
from railbed.report.reading.run import RunData

ANSWERS, ARM_VALUE, ARM_MEAN, DIFFERENCE = "bench_difference", "arm_value", "arm_mean", "difference"
COLUMNS = ("compared", "A", "B", "mean of A", "mean of B", "unit", "B − A", "at least", "at most", "repeats")
BOUNDS = ("mean", "low", "high")
ROW_HEIGHT = 46


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One comparison, from its records."""

    measure: str
    test: str
    """The test of both arms; empty if they differ."""
    unit: str
    arms: Mapping[str, Mapping[int, float]]
    """By arm and repeat, A before B."""
    means: Mapping[str, float]
    """By arm, as the answer states them; nothing without an answer."""
    bounds: Mapping[str, float]
    """The difference: its mean and its interval; nothing if there is no answer."""

    @property
    def title(self) -> str:
        """A description of what is compared."""
        return f"{SHOWN.get(self.measure, self.measure)}{f' by {self.test}' if self.test else ''}"

    @property
    def base(self) -> float:
        """The base of relative differences: the mean of A."""
        return self.mean(next(iter(self.arms)))

    def mean(self, arm: str) -> float:
        """Return the mean of an arm: that of the answer, or of all its repeats in runs that have none."""
        return self.means[arm] if arm in self.means else _mean(self.arms[arm])

    @property
    def is_seen(self) -> bool:
        """Whether zero lies outside the interval."""
        return bool(self.bounds) and (self.bounds["low"] > 0 or self.bounds["high"] < 0)


def headline(run: RunData) -> Headline | None:
    """State how many comparisons show a difference."""
    compared = comparisons(run)
    if not compared:
        return None
    if visits := run.of(FirstVisitDone):
        return Headline(f"the first of two visits: {visits[-1].message}", "notice")
    differences = sum(comparison.is_seen for comparison in compared)
    words = (
        f"a difference is seen in {differences} of {plural(len(compared), 'comparison')}"
        if differences
        else "no difference is seen"
    )
    return Headline(words, "good" if all(comparison.bounds for comparison in compared) else "notice")


def show(run: RunData) -> Sequence[Block] | None:
    """Show the answers as sentences, their numbers, and the plots."""
    compared = comparisons(run)
    answers = [finding for finding in run.findings if finding.check == ANSWERS]
    if not compared and not answers:
        return None
    blocks: list[Block] = [
        TextBlock(
            f"This is the first of two visits. Now the other arm: `railbed bench --second-visit {run.summary.id}`."
        )
        for _ in run.of(FirstVisitDone)[:1]
    ]
    if answers:
        blocks.append(Entries([_entry(item) for item in answers]))
        blocks += [TextBlock(why) for why in dict.fromkeys(item.why for item in answers) if why]
    if answered := [item for item in compared if item.bounds]:
        blocks.append(_differences(answered))
    blocks += [_repeats(item) for item in compared]
    if answered:
        blocks.append(TableBlock(COLUMNS, [_row(item) for item in answered], numbers=(*COLUMNS[3:5], *COLUMNS[6:])))
    return blocks


def comparisons(run: RunData) -> list[ArmComparison]:
    """Return what was compared, in order."""
    arms: dict[object, dict[str, dict[int, float]]] = {}
    about: dict[object, tuple[str, str, set[str]]] = {}
    bounds: dict[object, dict[str, float]] = {}
    means: dict[object, dict[str, float]] = {}
    for measurement in run.measurements:
        labels, number = measurement.labels, measurement.labels.get("comparison")
        if measurement.name == ARM_VALUE:
            _, _, tests = about.setdefault(number, (str(labels.get("measure", "")), measurement.unit, set()))
            tests.add(str(labels.get("test", "")))
            repeats = arms.setdefault(number, {}).setdefault(str(labels.get("arm", "")), {})
            repeats[int(labels.get("repeat", len(repeats) + 1))] = measurement.value
        elif measurement.name == ARM_MEAN:
            means.setdefault(number, {})[str(labels.get("arm", ""))] = measurement.value
        elif measurement.name == DIFFERENCE and labels.get("bound") in BOUNDS:
            bounds.setdefault(number, {})[str(labels["bound"])] = measurement.value
    return [
        ArmComparison(
            measure=measure,
            test=next(iter(tests)) if len(tests) == 1 else "",
            unit="µs" if unit == "us" else unit,
            arms=arms[number],
            means=means.get(number, {}),
            bounds=bounds[number] if len(bounds.get(number, {})) == len(BOUNDS) else {},
        )
        for number, (measure, unit, tests) in about.items()
    ]


def _entry(finding: Finding) -> Entry:
    mark = MarkCell("answer", "good") if finding.verdict is Verdict.OK else MarkCell(finding.verdict.value, "notice")
    return Entry(mark=mark, title=finding.subject, text=finding.observed)


def _row(comparison: ArmComparison) -> tuple[Cell, ...]:
    names = list(comparison.arms)
    means = [bare(comparison.mean(arm), comparison.unit) for arm in comparison.arms]
    shares = [share(comparison.bounds[bound] / comparison.base) if comparison.base else NOT_KNOWN for bound in BOUNDS]
    repeats = count(min(len(values) for values in comparison.arms.values()))
    return (comparison.title, *names[:2], *means[:2], comparison.unit, *shares, repeats)


def _repeats(comparison: ArmComparison) -> Figure:
    """Return both arms over their repeats."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label(name),
            "x": list(values),
            "y": [plain(value) for value in values.values()],
            "line": {"color": COLOURS[at], "width": 1.2, "dash": "dot"},
            "marker": {"size": 9, "color": COLOURS[at]},
            "cliponaxis": False,
        }
        for at, (name, values) in enumerate(comparison.arms.items())
    ]
    layout = {
        "xaxis": {"title": {"text": "repeat"}, "dtick": max(1, max(map(len, comparison.arms.values())) // 10)},
        "yaxis": {"rangemode": "tozero", "ticksuffix": f" {comparison.unit}"},
    }
    title = f"{comparison.title[0].upper()}{comparison.title[1:]}"
    return Figure(title=title, traces=traces, layout=layout, half=True, height=240)


def _differences(compared: Sequence[ArmComparison]) -> Figure:
    """Return all differences in percent of A, each with its interval; zero is no difference."""
    shown = [comparison for comparison in compared if comparison.base]
    layout: dict[str, Any] = {
        "xaxis": {
            "ticksuffix": " %",
            "rangemode": "tozero",
            "zeroline": True,
            "zerolinecolor": "$ink",
            "zerolinewidth": 1,
            "showgrid": True,
        },
        "yaxis": {"showticklabels": False, "range": [len(shown) - 0.5, -0.7], "showgrid": False},
        "annotations": list(_names(shown)),
        "hovermode": "closest",
    }
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [plain(100 * comparison.bounds["mean"] / comparison.base) for comparison in shown],
        "y": list(range(len(shown))),
        "text": [label(comparison.title) for comparison in shown],
        "hovertemplate": "%{text}: %{x:.2f} %<extra></extra>",
        "error_x": {
            "type": "data",
            "array": [
                plain(100 * (comparison.bounds["high"] - comparison.bounds["mean"]) / abs(comparison.base))
                for comparison in shown
            ],
            "color": "$c1",
            "thickness": 2,
            "width": 6,
        },
        "marker": {"size": 10, "color": "$c1"},
    }
    a, b = list(compared[0].arms)[:2]
    return Figure(
        title=f"Difference of {b} to {a}, in percent of {a}",
        traces=[trace],
        layout=layout,
        note="The dot is the mean difference, the bar its 95 % interval; if it includes zero, no difference is seen.",
        height=70 + ROW_HEIGHT * len(shown),
    )


def _names(shown: Sequence[ArmComparison]) -> Iterator[dict[str, Any]]:
    """Yield the names of the rows: above each, so that they fit a narrow screen."""
    for at, comparison in enumerate(shown):
        yield {
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "y": at,
            "yanchor": "bottom",
            "yshift": 9,
            "text": label(comparison.title),
            "bgcolor": "$paper",
            "borderpad": 0,
            "showarrow": False,
        }


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0


SECTION = Section(
    name="experiment",
    title="A against B",
    order=5,
    show=show,
    headline=headline,
    methods={
        ARM_VALUE: "the result of an arm in one repeat: simultaneous bandwidths are added, latencies (p50) and "
        "several trials are averaged",
        DIFFERENCE: "B minus A: in turns, the mean over pairs of repeats with Student's t; in two visits, the means of "
        "each with Welch's t; 95 % confidence",
    },
)
