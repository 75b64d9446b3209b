"""How fast the cluster is: the baseline, and the best figures of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.model.meters import RECORDED
from railbed.present.bench import message_size
from railbed.present.wording import moment, percent, plural
from railbed.report.blocks import Block, Cell, Fold, Heading, TableBlock, TextBlock, count, show_with_unit
from railbed.report.document import Section
from railbed.report.handover.data import BestFigure, HandoverData, SavedBaseline

BEST = ("what", "size", "measure", "best", "run")
BASELINE = ("measure", "median", "spread", "samples")
MOST_ROWS = 300


def show(data: HandoverData) -> Sequence[Block]:
    """Show the best figures, and the baseline folded away."""
    blocks: list[Block] = []
    if data.best:
        rows = [_best(data, figure) for figure in data.best]
        blocks += [
            TextBlock("The best median of each measure in the runs that are stored."),
            TableBlock(BEST, rows, numbers=("size", "best")),
        ]
    else:
        blocks.append(TextBlock(data.with_file("Nothing was measured yet: `railbed bench` measures links and disks.")))
    blocks.append(Heading("Baseline"))
    if data.baseline is None:
        text = "There is none: `railbed bench full --save-baseline` saves the numbers of a healthy cluster."
        return [*blocks, TextBlock(data.with_file(text))]
    return [*blocks, *_baseline(data.baseline)]


def _best(data: HandoverData, figure: BestFigure) -> tuple[Cell, ...]:
    meter = RECORDED.get(figure.measure)
    name = meter.title if meter and meter.title else figure.measure.replace("_", " ")
    value = show_with_unit(figure.value, figure.unit)
    return (figure.what, message_size(figure.size), name, value, data.run_name(figure.run))


def _baseline(baseline: SavedBaseline) -> Iterator[Block]:
    measures = plural(len(baseline.figures), "measure")
    yield TextBlock(f"{measures} of {baseline.run}, saved {moment(baseline.saved)} in {baseline.file}.")
    rows = [
        (
            figure.measure,
            show_with_unit(figure.middle, figure.unit),
            percent(figure.spread / figure.middle) if figure.middle else "",
            count(figure.count),
        )
        for figure in baseline.figures[:MOST_ROWS]
    ]
    yield Fold("all of them", [TableBlock(BASELINE, rows, numbers=BASELINE[1:])])


SECTION = Section(name="speed", title="Baseline and best figures", order=70, show=show)
