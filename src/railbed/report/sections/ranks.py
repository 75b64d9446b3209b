"""Is one rank slower than the others, or does it send more?"""

from __future__ import annotations

from collections.abc import Sequence

from railbed.report.blocks import Block, Cell, Table, Text
from railbed.report.data import RunData
from railbed.report.figures import BYTES, COLOURS, SECONDS, Bar, bars
from railbed.report.section import Section
from railbed.report.series import Source, empty, median, quantile
from railbed.report.words import plural, seconds, size

MOST_ROWS = 64
COLUMNS = ("rank", "node", "steps", "step, median", "step, 19 of 20 below", "waits, median", "sent per step", "sent")


def show(run: RunData) -> Sequence[Block] | None:
    """Show step time and bytes by rank."""
    if empty(run.series, "step_seconds", "bytes_sent"):
        return None
    times, sent, waits = (
        run.series[name].by_source() if name in run.series else {}
        for name in ("step_seconds", "bytes_sent", "allreduce_exposed_seconds")
    )
    ranks = sorted({*times, *sent})
    blocks: list[Block] = []
    if times and len(times) > 1:
        values = [
            Bar(name=_named(source), value=median(told), upper=quantile(told, 0.95)) for source, told in times.items()
        ]
        note = "The bar is the median; 19 of 20 steps end below the whisker."
        blocks.append(bars("Step time by rank", values, scales=SECONDS, note=note))
    if sent and len(sent) > 1:
        values = [Bar(name=_named(source), value=sum(told)) for source, told in sent.items()]
        blocks.append(bars("Sent by rank, in all", values, scales=BYTES, colour=COLOURS[2]))
    rows = [_row(source, times.get(source, []), sent.get(source, []), waits.get(source, [])) for source in ranks]
    blocks.append(Table(COLUMNS, rows[:MOST_ROWS], numbers=[*COLUMNS[:1], *COLUMNS[2:]]))
    blocks.extend(Text(f"Since step {event.data.get('step')}: {event.message}.") for event in run.told("shares")[-1:])
    if len(rows) > MOST_ROWS:
        blocks.append(Text(f"{plural(len(rows) - MOST_ROWS, 'more rank is', 'more ranks are')} not in the table."))
    return blocks


def _row(
    source: Source, times: Sequence[float], sent: Sequence[float], waits: Sequence[float]
) -> tuple[Cell, Cell, Cell, Cell, Cell, Cell, Cell, Cell]:
    return (
        str(source.rank),
        source.node,
        f"{len(times or sent):,}",
        seconds(median(times)),
        seconds(quantile(times, 0.95)),
        seconds(median(waits)),
        size(median(sent)),
        size(sum(sent)) if sent else size(median(sent)),
    )


def _named(source: Source) -> str:
    return f"{source.rank} · {source.node}" if source.node else str(source.rank)


SECTION = Section(
    name="ranks",
    title="Ranks",
    order=50,
    show=show,
    methods={
        "bytes_sent": "counted in the communication hook from the size of each bucket and what the collective's "
        "algorithm has to send of it; not read from the network card",
    },
)
