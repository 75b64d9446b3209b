"""Takes labs down, including those whose start was interrupted."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from railbed.lab import folder, switch
from railbed.lab.kind import KINDS
from railbed.lab.model import StoredLab
from railbed.model import events
from railbed.model.progress import progress
from railbed.model.record import Event, Record


async def down(name: str | None) -> AsyncGenerator[Record, None]:
    """Take down one lab; without a name, the only lab."""
    cleared = set()
    async for event in clear_broken():
        if isinstance(event, events.Notice):
            cleared.add(event.subject)
        yield event
    if name in cleared or (name is None and cleared and not folder.load_labs()):
        return
    lab = folder.chosen_lab(name)
    yield progress("ending the nodes", subject=lab.spec.name)
    with folder.locked(lab) as now:
        await take_down(now)
    yield events.LabDown(subject=lab.spec.name, message="down, and removed completely")


async def clear_broken() -> AsyncGenerator[Event, None]:
    """Take down labs whose `up` died: they are neither up nor locked."""
    for name in folder.remove_empty():
        yield events.Notice(subject=name, message=f"removed the remains of lab {name!r}")
    for lab in folder.load_labs():
        if lab.state == "starting" and not folder.is_busy(lab):
            yield progress("removing its remains", subject=lab.spec.name)
            with folder.locked(lab) as now:
                await take_down(now)
            yield events.Notice(subject=lab.spec.name, message=f"removed the remains of lab {lab.spec.name!r}")


async def take_down(lab: StoredLab) -> None:
    """End and remove everything of a lab, its files last."""
    await switch.stop(lab)
    await KINDS[lab.spec.kind].destroy(lab)
    folder.remove(lab)
