"""How each number on the page was measured, how often, and how much the values vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railbed.model.record import Measurement
from railbed.present.bench import what
from railbed.present.wording import JOIN, plural
from railbed.report.blocks import Block, Cell, Code, Facts, TableBlock, TextBlock, count, show_with_unit
from railbed.report.document import Section, all_sections
from railbed.report.reading.run import RunData
from railbed.report.reading.series import ENDS, MOST_AT_ENDS, Typical

COLUMNS = ("measure", "source", "values", "least", "median", "19 of 20 below", "most")


def show(run: RunData) -> Sequence[Block] | None:
    """Show every measure of the run with its spread."""
    if not run.series and not run.measurements:
        return None
    methods = {name: how for section in all_sections() for name, how in section.methods.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, series in sorted(run.series.items()):
        rows.append(_row(name, series.simulated, series.typical(), series.unit))
    grouped: dict[tuple[str, str, bool], list[Measurement]] = {}
    for measurement in run.measurements:
        grouped.setdefault((measurement.name, measurement.unit, measurement.source == "simulated"), []).append(
            measurement
        )
    rows += [
        _measured_row(name, simulated, measurements, unit) for (name, unit, simulated), measurements in grouped.items()
    ]
    words = (
        "Every number comes from the records of this run (records.jsonl in its folder). The "
        "value of a step is the mean over the ranks that took it; of a step that was repeated after a restart, the "
        "last one counts. Medians and ranges on this page are over these values, and those of a rank over its "
        "own values of the same steps. The loss at the beginning and at the end is the median over "
        f"{ENDS * 100:g}{JOIN}% of the steps, {MOST_AT_ENDS} at most. Plots of many steps draw the lowest and the "
        "highest point of each interval."
    )
    names = sorted({*run.series, *(measurement.name for measurement in run.measurements)})
    how = [(name, methods[name]) for name in names if name in methods]
    blocks: list[Block] = [TextBlock(words), Facts(how), TableBlock(COLUMNS, rows, numbers=COLUMNS[2:])]
    if run.unreadable:
        count = plural(run.unreadable, "unreadable record")
        blocks.append(TextBlock(f"{count} left out: damaged, or written by another version of railbed."))
    return blocks


def _measured_row(name: str, simulated: bool, measurements: Sequence[Measurement], unit: str) -> tuple[Cell, ...]:
    """Return the row of a measure without steps; measurements of different subjects have no common median."""
    of = Typical.of(measurement.value for measurement in measurements)
    alike = len({what(measurement.labels) for measurement in measurements}) == 1
    return _row(name, simulated, of if alike else replace(of, count=0), unit, len(measurements))


def _row(name: str, simulated: bool, of: Typical, unit: str, values: int | None = None) -> tuple[Cell, ...]:
    spread = (of.least, of.middle, of.high, of.most) if of.count else ()
    return (
        Code(name),
        "simulated" if simulated else "measured",
        count(of.count if values is None else values),
        *(show_with_unit(value, unit) for value in spread),
        *("" for _ in range(4 - len(spread))),
    )


SECTION = Section(name="method", title="Method", order=100, show=show)
