"""Who stops whom: pause frames by priority, and receivers that several nodes load at once."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.events import IncastSeen, PortPaused, RecordingRead
from railbed.present.wording import join_names, size
from railbed.report.blocks import Block, Cell, Code, Heading, TableBlock, TextBlock, Value, count, duration, share
from railbed.report.document import Section
from railbed.report.reading.run import RunData

PAUSE_COLUMNS = ("recording", "sender", "priority", "frames", "of them stop", "stopped for", "longest")
INCAST_COLUMNS = ("receiver", "senders at the worst", "moments", "overloaded", "together", "of the link")


def show(run: RunData) -> Sequence[Block] | None:
    """Show pauses and incast, if there are any."""
    pauses, incasts = run.of(PortPaused), run.of(IncastSeen)
    if not run.of(RecordingRead) or not (pauses or incasts):
        return None
    blocks: list[Block] = []
    if pauses:
        rows = [_pause(event) for event in pauses]
        blocks += [Heading("Pause frames"), TableBlock(PAUSE_COLUMNS, rows, numbers=PAUSE_COLUMNS[3:])]
        if not all(event.exact for event in pauses):
            text = "“At most”: the speed of the link is unknown, so the time up to the next frame counts."
            blocks.append(TextBlock(text))
    if incasts:
        rows = [_incast(event) for event in incasts]
        blocks += [Heading("Several senders at once"), TableBlock(INCAST_COLUMNS, rows, numbers=INCAST_COLUMNS[2:])]
    return blocks


def _pause(event: PortPaused) -> tuple[Cell, ...]:
    return (
        event.subject,
        Code(event.sender),
        "all" if event.priority is None else str(event.priority),
        count(event.frames),
        count(event.stops),
        _time(event.seconds, event.exact),
        _time(event.longest, event.exact),
    )


def _time(seconds: float, exact: bool) -> Value:
    value = duration(seconds)
    return value if exact else Value(value.value, value.unit, f"at most {value.text}")


def _incast(event: IncastSeen) -> tuple[Cell, ...]:
    return (
        event.subject,
        join_names(event.senders),
        count(event.moments),
        "" if event.overloaded is None else count(event.overloaded),
        Value(event.bytes_per_second, "byte/s", f"{size(event.bytes_per_second)}/s"),
        "" if event.share is None else share(event.share),
    )


SECTION = Section(name="packets_pressure", title="Pauses and incast", order=17, show=show)
