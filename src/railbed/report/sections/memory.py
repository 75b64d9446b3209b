"""The estimate of memory before the launch, compared with the memory that ranks used."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.present.wording import NOT_KNOWN
from railbed.report.blocks import Block, Cell, TableBlock, TextBlock, byte_count, share
from railbed.report.document import Section
from railbed.report.reading.history import memory
from railbed.report.reading.run import RunData

COLUMNS = (
    "node",
    "device",
    "ranks",
    "needed, estimate",
    "available",
    "of a rank, estimate",
    "of a rank, measured",
    "of the estimate",
)


def show(run: RunData) -> Sequence[Block] | None:
    """Show one row for each node."""
    rows: list[tuple[Cell, ...]] = []
    for node in memory(run):
        estimate, peak = node["estimated_rank_bytes"], node["peak_memory_bytes"]
        used = share(peak / estimate) if isinstance(estimate, int) and estimate and peak else NOT_KNOWN
        sizes = (node["needed_bytes"], node["available_bytes"], estimate, peak)
        head = (str(node["device"] or NOT_KNOWN), str(node["ranks"] or NOT_KNOWN))
        rows.append((node["node"], *head, *map(_size, sizes), used))
    words = "On a processor, all ranks of a node share the free memory; on a GPU, each rank has the memory of one card."
    return [TableBlock(COLUMNS, rows, numbers=COLUMNS[2:]), TextBlock(words)] if rows else None


def _size(value: object) -> Cell:
    return byte_count(value) if isinstance(value, int | float) else NOT_KNOWN


SECTION = Section(
    name="memory",
    title="Memory",
    order=75,
    show=show,
    methods={
        "peak_memory_bytes": "the rank's peak: on a processor its resident set as the kernel counts "
        "it, including shared libraries; on a GPU the memory of its tensors",
    },
)
