"""Step time, idle time and bytes of each rank: which ones are slow, wait, or send more."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.events import SharesChanged
from railbed.present.wording import NOT_KNOWN, plural
from railbed.report.blocks import Block, Cell, TableBlock, TextBlock, byte_count, count, duration
from railbed.report.document import Section
from railbed.report.figures import BYTES, COLOURS, SECONDS, Bar, bars
from railbed.report.reading.run import RunData
from railbed.report.reading.series import MeasuringRank, Typical, empty

MOST_ROWS = 64
COLUMNS = (
    "rank",
    "node",
    "steps",
    "step, median",
    "step, 19 of 20 below",
    "exposed, median",
    "idle, median",
    "idle, total",
    "sent per step",
    "sent",
)
COLUMN_MEASURES = ("step_seconds", "allreduce_exposed_seconds", "idle_seconds", "bytes_sent")


def show(run: RunData) -> Sequence[Block] | None:
    """Show step time, idle time and bytes by rank."""
    if empty(run.series, "step_seconds", "bytes_sent"):
        return None
    by_measure = {name: run.series[name].history_by_source() if name in run.series else {} for name in COLUMN_MEASURES}
    times, sent, idle = by_measure["step_seconds"], by_measure["bytes_sent"], by_measure["idle_seconds"]
    ranks = sorted({*times, *sent})
    blocks: list[Block] = []
    if times and len(times) > 1:
        values = [
            Bar(name=_label(source), value=of.middle, upper=of.high)
            for source, seconds in times.items()
            if (of := Typical.of(seconds)).count
        ]
        note = "The bar is the median; 19 of 20 steps end below the whisker."
        blocks.append(bars("Step time by rank", values, scales=SECONDS, note=note))
    if len(idle) > 1:
        values = [Bar(name=_label(source), value=sum(seconds)) for source, seconds in idle.items()]
        note = "Waiting for slower ranks. The rank with the lowest bar is the one that the others wait for."
        blocks.append(bars("Idle time by rank, total", values, scales=SECONDS, note=note, colour=COLOURS[4]))
    if sent and len(sent) > 1:
        values = [Bar(name=_label(source), value=sum(sizes)) for source, sizes in sent.items()]
        blocks.append(bars("Sent by rank, total", values, scales=BYTES, colour=COLOURS[2]))
    rows = [_row(source, *(by_measure[name].get(source, []) for name in COLUMN_MEASURES)) for source in ranks]
    blocks.append(TableBlock(COLUMNS, rows[:MOST_ROWS], numbers=[*COLUMNS[:1], *COLUMNS[2:]]))
    blocks.extend(TextBlock(f"Since step {shares.step}: {shares.message}.") for shares in run.of(SharesChanged)[-1:])
    if len(rows) > MOST_ROWS:
        blocks.append(TextBlock(f"{plural(len(rows) - MOST_ROWS, 'more rank is', 'more ranks are')} not in the table."))
    return blocks


def _row(
    source: MeasuringRank,
    times: Sequence[float],
    exposed: Sequence[float],
    idle: Sequence[float],
    sent: Sequence[float],
) -> tuple[Cell, ...]:
    step = Typical.of(times)
    return (
        str(source.rank),
        source.node,
        count(len(times or sent)),
        duration(step.middle),
        duration(step.high),
        duration(Typical.of(exposed).middle),
        duration(Typical.of(idle).middle),
        duration(sum(idle)) if idle else NOT_KNOWN,
        byte_count(Typical.of(sent).middle),
        byte_count(sum(sent)) if sent else NOT_KNOWN,
    )


def _label(source: MeasuringRank) -> str:
    return f"{source.rank} · {source.node}" if source.node else str(source.rank)


SECTION = Section(
    name="ranks",
    title="Ranks",
    order=50,
    show=show,
    methods={
        "idle_seconds": "by how much the rank's exposed all-reduce was longer than the shortest of the same step, "
        "which belongs to the slowest rank: the sum ends on all ranks at once",
        "bytes_sent": "counted in the communication hook from the size of each bucket and what the collective's "
        "algorithm has to send for it; not read from the network card",
    },
)
