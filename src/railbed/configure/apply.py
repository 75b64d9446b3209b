"""Applies fixes, or takes them back: first all switches, then all nodes, the steps of a device strictly in order.

While a switch changes, logins that cross it may fail: a node that is changed at that moment would restore itself. An
undo begins with the nodes, so that they never send in a class that no switch protects.

An undo takes back what a run changed on each device, unless somebody has changed it since.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from railbed.check.book import CHECK_BOOK, probes_needed
from railbed.check.run import read_devices
from railbed.configure.planned import pauses
from railbed.configure.request import Callbacks
from railbed.configure.undo_plan import NodeUndo, UndoPlan, UndoTerms, Values, plan_switch, values_before, values_of
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.fleet.change import NotChanged, NotUndone, Refused, commit, read_files
from railbed.fleet.switch_change import SwitchChange, read_running
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.events.general import progress
from railbed.model.events.runs import Outcome
from railbed.model.fix import FileStep, Fix, RunStep
from railbed.model.reading import DeviceFacts
from railbed.model.record import Change, Finding, Record
from railbed.parsing.nexus.switch_lock import Holder, checkpoint_name
from railbed.rules.engine import judge
from railbed.rules.site import Site

Verify = Callable[[], Awaitable[str]]
APPLY_SECONDS = 60.0
CONFIRM_SECONDS = 180
"""After this time a device restores itself; applying and verifying a change takes less."""


async def change_devices(
    fleet: Fleet, fixes: Sequence[Fix], callbacks: Callbacks, *, outcome: Outcome, run: str | None = None
) -> AsyncGenerator[Record, None]:
    """Yield an event for each device that is being changed, then one for each outcome, the quickest of its kind first.

    `outcome` is the outcome of a success, `run` the run that is being undone. Cancelling this waits until every device
    whose change was not confirmed has undone it.
    """
    names = [fix.device for fix in fixes]
    yield progress("changing", done=0, total=len(names), waiting=names)
    yielded: list[events.DeviceChanged] = []
    tasks: list[asyncio.Task[events.DeviceChanged]] = []
    try:
        for together in _phases(fleet, fixes, undoing=run is not None):
            for fix in together:
                yield events.ChangeStarted(subject=fix.device, message=f"changing {fix.device}", run=run)
            started = [asyncio.create_task(_change(fleet, fix, callbacks, outcome, run)) for fix in together]
            tasks += started
            for done in asyncio.as_completed(started):
                yielded.append(await done)
                yield yielded[-1]
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, events.DeviceChanged) and result not in yielded:
                callbacks.note_late(result)


def _phases(fleet: Fleet, fixes: Sequence[Fix], *, undoing: bool) -> tuple[list[Fix], list[Fix]]:
    """Return the fixes to make at the same time, one kind of device after the other."""
    switches = {target.name for target in fleet.targets if target.kind == "switch"}
    first = [fix for fix in fixes if (fix.device in switches) is not undoing]
    return first, [fix for fix in fixes if fix not in first]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """What to undo."""

    terms: UndoTerms
    fixes: Sequence[Fix]
    """What the run saved, one for each device."""
    changes: Sequence[Change]
    """What the run was about to change."""
    results: Sequence[Finding]
    """What it found once it had changed the devices; nothing if it was cut short."""
    callbacks: Callbacks


async def undo(cluster: Cluster, fleet: Fleet, request: UndoRequest) -> AsyncGenerator[Record, None]:
    """Yield the changes that undo a run and, once confirmed, the outcome on each device."""
    run, callbacks = request.terms.run, request.callbacks
    devices: dict[str, DeviceFacts] = {}
    after = values_of(request.results)
    checks = [check for check in CHECK_BOOK.rules.values() if any(_rule(key) == check.name for key in _parts(request))]
    if checks and after:
        async with aclosing(read_devices(cluster, fleet, list(probes_needed(checks, cluster)), devices)) as records:
            async for record in records:
                yield record
    now = values_of(judge(CHECK_BOOK, Site(cluster, devices), checks)) if devices else {}
    plans, failures = await _plans(fleet, request, after, now)
    for record in _list_changes(run, plans):
        yield record
    for device, reason in failures.items():
        yield events.DeviceChanged(subject=device, message=f"{device} was not changed: {reason}", outcome="refused")
    fixes = [plan.fix for plan in plans if not plan.is_empty]
    if not fixes:
        return
    with callbacks.exclusive():
        names = ", ".join(fix.device for fix in fixes)
        if not await callbacks.confirm(f"undo {run} on {names}{pauses(fixes)}?"):
            yield events.Notice(message="nothing was changed")
            return
        async with aclosing(change_devices(fleet, fixes, callbacks, outcome="undone", run=run)) as records:
            async for record in records:
                yield record


def _list_changes(run: str, plans: Sequence[UndoPlan]) -> Iterator[Record]:
    for plan in plans:
        yield from plan.changes
    made = [plan.fix for plan in plans if not plan.is_empty]
    yield events.ChangesPlanned(
        message=f"undo {run}",
        devices=[fix.device for fix in made],
        changes=sum(not change.left_out for plan in plans for change in plan.changes),
        left_out=sum(bool(change.left_out) for plan in plans for change in plan.changes),
        interrupts=[fix.device for fix in made if fix.interrupts],
    )


async def _plans(
    fleet: Fleet, request: UndoRequest, after: Values, now: Values
) -> tuple[list[UndoPlan], dict[str, str]]:
    """Return the plan of each device, and why some could not be read."""
    kinds = {target.name: target.kind for target in fleet.targets}

    async def plan(fix: Fix) -> UndoPlan | DeviceError:
        try:
            if kinds[fix.device] == "switch":
                return await _plan_switch(fleet, fix, request)
            files = await read_files(fleet, fix.device, [step for step in fix.apply if isinstance(step, FileStep)])
        except DeviceError as error:
            return error
        before = values_before(request.changes)
        return NodeUndo(fix=fix, files=files, before=before, after=after, now=now, terms=request.terms).plan()

    results = await asyncio.gather(*(plan(fix) for fix in request.fixes))
    failures = {
        fix.device: result.message
        for fix, result in zip(request.fixes, results, strict=True)
        if isinstance(result, DeviceError)
    }
    return [result for result in results if isinstance(result, UndoPlan)], failures


async def _plan_switch(fleet: Fleet, fix: Fix, request: UndoRequest) -> UndoPlan:
    holder, running = await read_running(fleet, fix.device)
    half_undone = holder is not None and (holder.purpose, holder.run) == ("undo", request.terms.run)
    return plan_switch(fix, running, half_undone=half_undone, terms=request.terms)


def _parts(request: UndoRequest) -> Iterator[str]:
    """Yield the `rule subject` of every command of the undo."""
    for fix in request.fixes:
        for step in fix.apply:
            if isinstance(step, RunStep) and step.part:
                yield from step.part.split(", ")


def _rule(key: str) -> str:
    return key.partition(" ")[0]
