"""What carried the gradients: RDMA, TCP, or unknown, according to the counters of cards and interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.model.events import GradientPath, NodeGradients
from railbed.model.record import Verdict
from railbed.present.wording import NOT_KNOWN, size
from railbed.report.blocks import Block, Cell, Code, Entries, Entry, MarkCell, TableBlock, Tone, byte_count
from railbed.report.document import Headline, Section
from railbed.report.reading.run import RunData

COLUMNS = ("node", "gradients", "rail", "interface", "RDMA device", "sent over RDMA", "sent over TCP", "TCP of others")
TONES: dict[Verdict, Tone] = {
    Verdict.OK: "good",
    Verdict.WARN: "notice",
    Verdict.UNKNOWN: "notice",
    Verdict.FAIL: "bad",
}


def show(run: RunData) -> Sequence[Block] | None:
    """Show the latest verdict and the counters behind it, by node and rail."""
    path = _latest(run)
    if path is None:
        return None
    verdict = Entry(
        mark=MarkCell(path.verdict.value, TONES.get(path.verdict, "quiet")),
        title=f"transport {path.transport or NOT_KNOWN}",
        text=path.message,
        advice=path.remedy,
    )
    rows = [row for node in path.nodes for row in _rows(node)]
    return [Entries([verdict]), TableBlock(COLUMNS, rows, numbers=("gradients", *COLUMNS[5:]))]


def headline(run: RunData) -> Headline | None:
    """State the verdict in short."""
    path = _latest(run)
    return Headline(f"gradients: {path.short}", TONES.get(path.verdict, "quiet")) if path else None


def _latest(run: RunData) -> GradientPath | None:
    return next(reversed(run.of(GradientPath)), None)


def _rows(node: NodeGradients) -> Iterator[tuple[Cell, ...]]:
    for rail in node.rails:
        yield (
            node.node,
            byte_count(node.gradient_bytes) if node.gradient_bytes is not None else NOT_KNOWN,
            rail.rail,
            Code(rail.netdev),
            Code(rail.rdma_port) if rail.rdma_port else "none",
            _span(rail.rdma_bytes),
            _span(rail.tcp_bytes, node.tcp_bytes_at_most),
            size(rail.other_tcp_bytes) if rail.other_tcp_bytes is not None else "not counted",
        )


def _span(bounds: tuple[int, int | None] | None, limit: int | None = None) -> str:
    """Return two bounds as text; a limit of the whole node also applies to its rails."""
    if bounds is None:
        return "not counted"
    least, most = bounds
    limits = [bound for bound in (most, limit) if bound is not None]
    if not limits:
        return f"{size(least)} or more"
    low, high = size(min(least, *limits)), size(min(limits))
    return high if low == high else f"{low} to {high}"


SECTION = Section(
    name="path",
    title="What carried the gradients",
    order=45,
    show=show,
    headline=headline,
    methods={
        "gradient_bytes": "added up in the communication hook from the size of every bucket on the wire; at "
        "least this much has to leave a node",
        "rdma_bytes": "from the card's counters during the steps, read on the node at the first step, every "
        "ten seconds and after the last: bytes, words of 4 bytes, or packets (Soft-RoCE), which are bytes between "
        "nothing and the path MTU each",
        "tcp_bytes": "bytes of the ranks' TCP connections on the rail in the same time, as the kernel counts them; at "
        "most with the data segments, at their longest, that belong to no listed connection. If the "
        "kernel does not count by connection: the counter of the interface, for Soft-RoCE without its own frames, and "
        "never more than all TCP segments of the node at their longest",
    },
)
