"""Notes about a run in progress from other commands, such as a fault that was caused in its lab: `notes.jsonl`.

The records of a run have one writer, so what others know about it is in a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from railbed.model.private import for_us_alone
from railbed.model.record import Event
from railbed.model.text.scrub import scrub
from railbed.store.records import to_line
from railbed.store.run import NOTES, is_own_folder, list_runs, runs_folder


def note_in_runs(cluster: str, events: Iterable[Event]) -> None:
    """Add events to every run in progress on a cluster; a run whose folder cannot be written does without them."""
    lines = b"".join(scrub(to_line(event)) + b"\n" for event in events)
    for run in list_runs() if lines else ():
        folder = runs_folder() / run.id
        if run.status == "running" and run.cluster == cluster and is_own_folder(folder):
            with suppress(OSError), open(folder / NOTES, "ab", buffering=0, opener=for_us_alone) as file:
                file.write(lines)
