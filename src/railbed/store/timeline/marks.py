"""Events as marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from railbed.model.events import CheckpointSaved, GenerationFailed, GenerationStarted
from railbed.model.record import Event
from railbed.store.timeline.data import Mark, MarkKind

KINDS: Mapping[str, MarkKind] = {
    "lab_fault": "fault",
    "lab_healed": "notice",
    "generation": "notice",
    "restart": "restart",
    "restart_checked": "notice",
    "node_lost": "lost",
    "node_cut": "lost",
    "node_out": "lost",
    "checkpoint": "checkpoint",
    "checkpoint_failed": "error",
    "caught_up": "notice",
    "shares": "notice",
    "sampling_gap": "gap",
    "sampling_resumed": "notice",
    "clock_jumped": "clock",
    "foreign_traffic": "traffic",
    "intrusion": "error",
    "error": "error",
    "notice": "notice",
}
"""Kind of the mark for an event, by the event's name; others are not marked."""


def marks_of(events: Iterable[Event]) -> list[Mark]:
    """Return the marks of events: one for a checkpoint that several nodes saved."""
    marks: list[Mark] = []
    saved: set[int] = set()
    for event in events:
        kind = KINDS.get(event.name)
        if kind is None:
            continue
        match event:
            case CheckpointSaved(step=step):
                if step in saved:
                    continue
                saved.add(step)
                marks.append(Mark(event.time, kind, "", f"checkpoint of step {step:,}"))
            case GenerationStarted(nodes=nodes):
                text = event.message or f"ranks started on {', '.join(nodes)}"
                marks.append(Mark(event.time, kind, "", text, event.generation))
                saved.clear()
            case _:
                text = event.message or event.name.replace("_", " ")
                ended = event.generation if isinstance(event, GenerationFailed) else None
                marks.append(Mark(event.time, kind, event.subject, text, ended))
    return marks
