"""Where packets were recorded: how, how many, what was dropped, and how far the clocks are apart."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.events import CaptureMethod, ClockAligned, RecordingRead
from railbed.present.wording import NOT_KNOWN, seconds
from railbed.report.blocks import Block, Cell, Code, Entries, Entry, MarkCell, TableBlock, byte_count, count
from railbed.report.document import Section
from railbed.report.reading.run import RunData

COLUMNS = ("recording", "RDMA packets", "of", "bytes", "dropped", "snap length", "lasted", "clock", "file")
NUMBERS = COLUMNS[1:7]


def show(run: RunData) -> Sequence[Block] | None:
    """Show the recordings, and the cost of the methods that have one."""
    recordings = run.of(RecordingRead)
    if not recordings:
        return None
    clocks = {clock.subject: clock.message for clock in run.of(ClockAligned)}
    table = TableBlock(COLUMNS, [_row(recording, clocks) for recording in recordings], numbers=NUMBERS)
    return [table, *([Entries(entries)] if (entries := _methods(run)) else [])]


def _row(recording: RecordingRead, clocks: dict[str, str]) -> tuple[Cell, ...]:
    began, ended = recording.began, recording.ended
    return (
        recording.subject,
        count(recording.packets),
        count(recording.total),
        byte_count(recording.bytes),
        NOT_KNOWN if recording.dropped is None else count(recording.dropped),
        count(recording.snap_length) if recording.snap_length else NOT_KNOWN,
        seconds(max(0.0, ended - began)) if began is not None and ended is not None else "",
        clocks.get(recording.subject, ""),
        Code(recording.file),
    )


def _methods(run: RunData) -> list[Entry]:
    """Return how ports were recorded; ports with the same method share an entry."""
    methods: dict[str, list[str]] = {}
    for method in run.of(CaptureMethod):
        methods.setdefault(method.message.replace(method.source, "it", 1), []).append(method.subject)
    return [Entry(mark=MarkCell("method"), title=", ".join(ports), text=text) for text, ports in methods.items()]


SECTION = Section(name="packets_recordings", title="Recordings", order=72, show=show)
