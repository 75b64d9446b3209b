"""How each number on the page was got: what was measured, how often, and how far the values lie apart."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.report.blocks import Block, Cell, Code, Facts, Table, Text
from railbed.report.catalogue import all_sections
from railbed.report.data import RunData
from railbed.report.section import Section
from railbed.report.series import ENDS, MOST_AT_ENDS, median, quantile
from railbed.report.values import count, measured
from railbed.report.words import JOIN, plural

COLUMNS = ("measure", "source", "values", "least", "median", "19 of 20 below", "most")


def show(run: RunData) -> Sequence[Block] | None:
    """Show every measure of the run with its spread."""
    if not run.series and not run.measurements:
        return None
    methods = {name: how for section in all_sections() for name, how in section.methods.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, series in sorted(run.series.items()):
        rows.append(_row(name, series.simulated, series.values(), series.unit))
    grouped: dict[tuple[str, str, bool], list[float]] = {}
    for one in run.measurements:
        grouped.setdefault((one.name, one.unit, one.source == "simulated"), []).append(one.value)
    rows += [_row(name, simulated, values, unit) for (name, unit, simulated), values in grouped.items()]
    words = (
        "Every number comes from the records of this run (records.jsonl in its folder) and from nothing else. Values "
        "of steps that were done again after a restart count here. The loss at the beginning and at the end is the "
        f"median over {ENDS * 100:g}{JOIN}% of the steps, {MOST_AT_ENDS} at most. Plots of many steps draw "
        "the lowest and the highest point of each stretch."
    )
    names = sorted({*run.series, *(one.name for one in run.measurements)})
    how = [(name, methods[name]) for name in names if name in methods]
    blocks: list[Block] = [Text(words), Facts(how), Table(COLUMNS, rows, numbers=COLUMNS[2:])]
    if run.damaged:
        blocks.append(Text(f"{plural(run.damaged, 'line')} of the records cannot be read and were passed over."))
    return blocks


def _row(name: str, simulated: bool, values: Sequence[float], unit: str) -> tuple[Cell, ...]:
    spread = (min(values), median(values), quantile(values, 0.95), max(values)) if values else ()
    return (
        Code(name),
        "simulated" if simulated else "measured",
        count(len(values)),
        *(measured(value, unit) for value in spread),
        *("" for _ in range(4 - len(spread))),
    )


SECTION = Section(name="method", title="How the numbers were got", order=100, show=show)
