"""Applies one fix to each device: devices at the same time, the steps of a device strictly in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from railbed.configure.request import Callbacks
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.fleet.change import NotChanged, NotUndone, Refused, commit
from railbed.fleet.switch_change import SwitchChange
from railbed.model import events
from railbed.model.events.configure import Outcome
from railbed.model.fix import Fix
from railbed.model.progress import progress
from railbed.model.record import Record
from railbed.parsing.nexus.switch_lock import Holder, checkpoint_name

Verify = Callable[[], Awaitable[str]]
APPLY_SECONDS = 60.0
CONFIRM_SECONDS = 180
"""After this time a device restores itself; applying and verifying a change takes less."""


async def change_devices(
    fleet: Fleet, fixes: Sequence[Fix], callbacks: Callbacks, *, outcome: Outcome, run: str | None = None
) -> AsyncGenerator[Record, None]:
    """Yield an event for each device that is being changed, then one for each outcome, the quickest first.

    `outcome` is the outcome of a success, `run` the run that is being undone. Cancelling this waits until every device
    whose change was not confirmed has undone it.
    """
    for fix in fixes:
        yield events.ChangeStarted(subject=fix.device, message=f"changing {fix.device}", run=run)
    names = [fix.device for fix in fixes]
    yield progress("changing", done=0, total=len(names), waiting=names)
    yielded: list[events.DeviceChanged] = []
    tasks = [asyncio.create_task(_change(fleet, fix, callbacks, outcome, run)) for fix in fixes]
    try:
        for done in asyncio.as_completed(tasks):
            yielded.append(await done)
            yield yielded[-1]
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, events.DeviceChanged) and result not in yielded:
                callbacks.note_late(result)


async def _change(
    fleet: Fleet, fix: Fix, callbacks: Callbacks, outcome: Outcome, run: str | None
) -> events.DeviceChanged:
    """Change a device and return the outcome: a device that fails does not stop the others."""

    async def verify() -> str:
        reason = await fleet.log_in_again(fix.device)
        return f"railbed can no longer log in: {reason}" if reason else ""

    result: Outcome
    try:
        note = await _commit(fleet, fix, callbacks, verify, run)
        done = f"what {run} changed on {fix.device} is undone" if run else f"{fix.device} was changed"
        result, message = outcome, f"{done}{f'; {note}' if note else ''}"
    except Refused as error:
        result, message = "refused", f"{error.message}{f'; {error.hint}' if error.hint else ''}"
    except NotChanged as error:
        result, message = "restored", error.message
    except NotUndone as error:
        undo = f"`railbed configure --undo {run or callbacks.run_name()}`"
        result, message = "unknown", f"{error.message}; {undo} restores it once it can be reached; or {error.hint}"
    except DeviceError as error:  # the connection broke before anything was done, or after everything was undone
        result, message = "restored", f"{fix.device} was not changed: {error.message}"
    return events.DeviceChanged(subject=fix.device, message=message, outcome=result, run=run)


async def _commit(fleet: Fleet, fix: Fix, callbacks: Callbacks, verify: Verify, undone: str | None) -> str:
    """Change a node under a guard, a switch under a checkpoint; return what the user should know about it."""
    name = undone or callbacks.run_name()
    if next(target for target in fleet.targets if target.name == fix.device).kind == "switch":
        holder = Holder.this_process("undo" if undone else "run", name)
        change = SwitchChange(fleet, fix, checkpoint_name(callbacks.run_name()), holder, callbacks.has_ended)
        return await (change.undo(undone, verify) if undone else change.commit(save=callbacks.save, verify=verify))
    await commit(
        fleet,
        fix,
        save=callbacks.save,
        verify=verify,
        holder=f"run {name}{', being undone' if undone else ''}",
        seconds=CONFIRM_SECONDS + fix.seconds,
        apply_seconds=APPLY_SECONDS + fix.seconds,
    )
    return fix.note
