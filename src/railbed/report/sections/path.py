"""How the gradients travelled: over RDMA, over TCP, or unknown, by what the counters of cards and interfaces moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railbed.model.record import Event, Verdict
from railbed.report.blocks import Block, Cell, Code, Entries, Entry, Mark, Table, Tone
from railbed.report.reading.run import RunData
from railbed.report.section import Headline, Section
from railbed.report.values import byte_count
from railbed.report.words import NOT_KNOWN, size

COLUMNS = ("node", "gradients", "rail", "interface", "RDMA device", "sent over RDMA", "sent over TCP", "TCP of others")
TONES: dict[str, Tone] = {Verdict.OK: "good", Verdict.WARN: "notice", Verdict.UNKNOWN: "notice", Verdict.FAIL: "bad"}


def show(run: RunData) -> Sequence[Block] | None:
    """Show the last word on it, and what it rests on, by node and rail."""
    event = _last(run)
    if event is None:
        return None
    remedy = event.data.get("remedy")
    told = Entry(
        mark=Mark(str(event.data.get("verdict", NOT_KNOWN)), _tone(event)),
        title=f"transport {event.data.get('transport', NOT_KNOWN)}",
        text=event.message,
        advice=str(remedy) if remedy else "",
    )
    rows = [row for node in _maps(event.data.get("nodes")) for row in _rows(node)]
    return [Entries([told]), Table(COLUMNS, rows, numbers=("gradients", *COLUMNS[5:]))]


def headline(run: RunData) -> Headline | None:
    """Say it in short."""
    event = _last(run)
    short = event.data.get("short") if event else None
    return Headline(f"gradients: {short}", _tone(event)) if event and isinstance(short, str) else None


def _last(run: RunData) -> Event | None:
    return next(reversed(run.told("gradient_path")), None)


def _tone(event: Event) -> Tone:
    return TONES.get(str(event.data.get("verdict")), "quiet")


def _rows(node: Mapping[str, object]) -> Iterator[tuple[Cell, ...]]:
    gradients = node.get("gradient_bytes")
    for rail in _maps(node.get("rails")):
        device = rail.get("rdma_port")
        yield (
            str(node.get("node", "")),
            byte_count(gradients) if isinstance(gradients, int) else NOT_KNOWN,
            str(rail.get("rail", "")),
            Code(str(rail.get("netdev", ""))),
            Code(str(device)) if device else "none",
            _span(rail.get("rdma_bytes")),
            _span(rail.get("tcp_bytes"), node.get("tcp_bytes_at_most")),
            size(others) if isinstance(others := rail.get("other_tcp_bytes"), int) else "not counted",
        )


def _span(bounds: object, limit: object = None) -> str:
    """Return two bounds in words; a limit of the whole node holds for its rails, too."""
    match bounds:
        case [int(least), int(most)]:
            pass
        case [int(least), None] if isinstance(limit, int):
            most = limit
        case [int(least), None]:
            return f"{size(least)} or more"
        case _:
            return "not counted"
    most = min(most, limit) if isinstance(limit, int) else most
    low, high = size(min(least, most)), size(most)
    return high if low == high else f"{low} to {high}"


def _maps(found: object) -> list[Mapping[str, object]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


SECTION = Section(
    name="path",
    title="How the gradients travelled",
    order=45,
    show=show,
    headline=headline,
    methods={
        "gradient_bytes": "added up in the communication hook from the size of every bucket, as it is on the wire; at "
        "least so much has to leave a node",
        "rdma_bytes": "moved by the card's own counters while the steps ran, read on the node at the first step, every "
        "ten seconds and after the last: bytes, words of 4 bytes, or packets (Soft-RoCE), which are bytes between "
        "nothing and the path MTU each",
        "tcp_bytes": "what the ranks' TCP connections on the rail sent over the same time, as the kernel counts it; at "
        "most with those segments with data, at their longest, that belong to no connection that was seen. Where the "
        "kernel does not count by connection: the counter of the interface, for Soft-RoCE without its own frames, and "
        "never more than all TCP segments of the node at their longest",
    },
)
