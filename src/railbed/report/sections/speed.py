"""Tokens per second, and the share of the devices' peak performance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from railbed.model.events import RankChoices
from railbed.model.text import number
from railbed.present.wording import JOIN, NOT_KNOWN, percent
from railbed.report.blocks import Block, Cell, Facts
from railbed.report.document import Section
from railbed.report.figures import COLOURS, Line, over_steps
from railbed.report.reading.history import restarts
from railbed.report.reading.run import RunData
from railbed.report.reading.series import Typical, empty


def show(run: RunData) -> Sequence[Block] | None:
    """Show tokens per second and MFU."""
    if empty(run.series, "tokens_per_second", "mfu"):
        return None
    facts: list[tuple[str, Cell]] = []
    figures: list[Block] = []
    marks = [(restart.before.steps[1], "restart") for restart in restarts(run) if restart.before.steps]
    if "tokens_per_second" in run.series:
        series = run.series["tokens_per_second"]
        facts.append(("tokens/s", _in_words(series.typical(), number)))
        line = Line(name="tokens/s", points=series.mean(), colour=COLOURS[0])
        figures.append(over_steps("Tokens per second", [line], half=True, from_zero=True, marks=marks))
    facts.extend(_tokens(run))
    if "mfu" in run.series:
        series = run.series["mfu"]
        facts.append(("MFU", _in_words(series.typical(), percent)))
        facts.append(("counted against", _peaks(run)))
        line = Line(name="MFU", points=series.mean(), colour=COLOURS[2])
        figures.append(
            over_steps("Share of the device's peak (MFU)", [line], half=True, from_zero=True, tick="~%", marks=marks)
        )
    return [Facts(facts), *figures]


def _tokens(run: RunData) -> Iterator[tuple[str, Cell]]:
    """Yield how many tokens there were, if sequences were not all full."""
    if "tokens" in run.series and "trained_tokens" in run.series:
        total, learned = (sum(run.series[name].mean().values) for name in ("tokens", "trained_tokens"))
        yield "tokens", f"{total:,.0f} without padding, of which {learned:,.0f} were learned"


def _in_words(of: Typical, shown: Callable[[float], str]) -> str:
    return f"{shown(of.middle)} in the median; {shown(of.low)} to {shown(of.high)} in 9 of 10 steps"


def _peaks(run: RunData) -> str:
    peaks: dict[str, list[float]] = {}
    for rank in run.of(RankChoices):
        if rank.peak_flops:
            peaks.setdefault(rank.peak_source or "", []).append(rank.peak_flops)
    return "; ".join(f"{_flops(values)} ({source})" for source, values in peaks.items()) or NOT_KNOWN


def _flops(values: Sequence[float]) -> str:
    scale, unit = (1e12, "TFLOP/s") if max(values) >= 1e12 else (1e9, "GFLOP/s")
    ends = dict.fromkeys(number(value / scale, 3) for value in (min(values), max(values)))
    return f"{' to '.join(ends)}{JOIN}{unit}"


SECTION = Section(
    name="speed",
    title="Speed",
    order=30,
    show=show,
    methods={
        "tokens_per_second": "tokens of the whole global batch, without padding, divided by the time of the step",
        "mfu": "tokens/s times floating-point operations per token (forward and backward, without recomputation), "
        "divided by the peak named under Speed",
    },
)
