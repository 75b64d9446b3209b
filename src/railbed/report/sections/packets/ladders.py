"""Selected messages, packet by packet: requests, answers, refusals, what was lost and sent again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from railbed.model.events import Ladder as LadderEvent
from railbed.model.events import LadderStep
from railbed.present.wording import JOIN, seconds
from railbed.report.blocks import Block, Cell, Fold, LadderBlock, Rung, TableBlock, TextBlock, Tone, duration
from railbed.report.document import Section
from railbed.report.reading.run import RunData

MOST_OPEN = 2
"""Further ladders are folded."""
TONES: dict[str, Tone] = {"": "quiet", "CE": "notice", "sent again": "notice"}
"""Other notes are refusals and losses."""
MILD = (*TONES, "lost")
"""Notes of packets that are not refusals."""
COLUMNS = ("at the left", "at the right", "direction", "packet", "PSN", "number", "")


def show(run: RunData) -> Sequence[Block] | None:
    """Show each ladder as a drawing."""
    ladders = [_ladder(event, f"ladder{number}") for number, event in enumerate(run.of(LadderEvent), 1) if event.steps]
    if not ladders:
        return None
    words = (
        "Time runs from top to bottom, with a row for each packet rather than to scale; the times count from the first "
        "packet shown. An arrow is horizontal if the packet was recorded at one end only."
    )
    folded = [Fold(ladder.title, [ladder]) for ladder in ladders[MOST_OPEN:]]
    return [TextBlock(words), *ladders[:MOST_OPEN], *folded]


def _ladder(event: LadderEvent, name: str) -> LadderBlock:
    steps = _from_the_first(event.steps)
    numbers = [step.number for step in steps]
    where = f" of {event.file}" if event.file else ""
    return LadderBlock(
        name=name,
        title=f"{event.subject}: around {event.why}",
        left=event.left,
        right=event.right,
        rungs=_rungs(steps),
        table=TableBlock(COLUMNS, [_row(step) for step in steps], numbers=(*COLUMNS[:2], *COLUMNS[4:6])),
        note=f"In Wireshark: packets {min(numbers)} to {max(numbers)}{where}.",
    )


def _from_the_first(steps: Sequence[LadderStep]) -> list[LadderStep]:
    """Return packets in the order in which they were sent, with times from the first of them on."""
    ordered = sorted(steps, key=_departure)
    first = _departure(ordered[0])
    return [replace(step, left=_since(first, step.left), right=_since(first, step.right)) for step in ordered]


def _since(start: float, at: float | None) -> float | None:
    return None if at is None else at - start


def _departure(step: LadderStep) -> float:
    """Return when a packet was sent; if that was not recorded, when it arrived."""
    first, second = (step.left, step.right) if step.to == "right" else (step.right, step.left)
    return first if first is not None else second if second is not None else 0.0


def _arrival(step: LadderStep) -> float | None:
    return step.right if step.to == "right" else step.left


def _rungs(steps: Sequence[LadderStep]) -> list[Rung]:
    sent = [_departure(step) for step in steps]
    arrivals = [at for step in steps if (at := _arrival(step)) is not None]
    latest = max(arrivals, default=sent[-1])
    return [
        Rung(
            to="right" if step.to == "right" else "left",
            text=f"{_text(step)}{JOIN}{step.psn}",
            when=seconds(at),
            sent=row + 0.5,
            arrived=_arrival_row(step, row + 0.5, sent, latest),
            note=_note(step),
            tone=TONES.get(step.note, "bad"),
        )
        for row, (step, at) in enumerate(zip(steps, sent, strict=True))
    ]


def _arrival_row(step: LadderStep, row: float, sent: Sequence[float], latest: float) -> float | None:
    """Return where a packet arrives: between the rows of those that were sent before and after; None if it was lost."""
    at = _arrival(step)
    if at is None:
        return None if step.note == "lost" else row
    before = bisect_right(sent, at) - 1
    start, stop = sent[before], sent[before + 1] if before + 1 < len(sent) else latest
    share = (at - start) / (stop - start) if stop > start else 0.0
    return max(row, before + 0.5 + share)


def _text(step: LadderStep) -> str:
    return step.text.replace("Acknowledge", "ACK" if step.note in MILD else "NAK")


def _note(step: LadderStep) -> str:
    return "sequence error" if step.note == "sequence" else step.note


def _row(step: LadderStep) -> tuple[Cell, ...]:
    times = (duration(at) if at is not None else "" for at in (step.left, step.right))
    return (*times, "→" if step.to == "right" else "←", _text(step), str(step.psn), str(step.number), _note(step))


SECTION = Section(name="packets_ladders", title="Messages, packet by packet", order=16, show=show)
