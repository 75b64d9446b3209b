"""Undoes a run: each device gets back what the run changed, from the copies it saved."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from railbed.configure.apply import change_devices
from railbed.configure.planned import lines_of
from railbed.configure.request import Callbacks
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.fix import Fix
from railbed.model.record import Change, Record


async def undo(fleet: Fleet, run: str, fixes: Sequence[Fix], callbacks: Callbacks) -> AsyncGenerator[Record, None]:
    """Yield the changes that undo a run and, once confirmed, the outcome on each device; `fixes` are those it saved."""
    for fix in fixes:
        yield Change(
            subject=fix.device,
            action="set",
            after=f"the state before {run}",
            apply=tuple(line for step in fix.apply for line in lines_of(step)),
            interrupts=fix.interrupts,
        )
    names = [fix.device for fix in fixes]
    yield events.ChangesPlanned(
        message=f"undo {run}",
        devices=names,
        changes=len(fixes),
        left_out=0,
        interrupts=[fix.device for fix in fixes if fix.interrupts],
    )
    with callbacks.exclusive():
        if not await callbacks.confirm(f"undo {run} on {', '.join(names)}?"):
            yield events.Notice(message="nothing was changed")
            return
        async with aclosing(change_devices(fleet, fixes, callbacks, outcome="undone", run=run)) as records:
            async for record in records:
                yield record
