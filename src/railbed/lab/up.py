"""Brings a lab up, until every node answers and a scheduler can run jobs, and takes it down, without remains.

A lab whose start was interrupted is taken down, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType

from railbed import clusterfile
from railbed.errors import DeviceError, UsageError
from railbed.fleet import Fleet
from railbed.lab import folder, switch
from railbed.lab.host import HostFault
from railbed.lab.kind import KINDS
from railbed.lab.model import CONTROLLER, SWITCH, Spec, StoredLab, rail_subnet
from railbed.lab.netns.slurm import log_file
from railbed.lab.steps import Patience, Signs
from railbed.model import events
from railbed.model.cluster import Cluster, Login, Rail, Training
from railbed.model.events.general import progress
from railbed.model.record import Event, Record
from railbed.transport.base import Command, Target, targets_of
from railbed.transport.connect import live_connector


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
    with folder.lock_lab(lab) as now:
        await take_down(now)
    yield events.LabDown(subject=lab.spec.name, message="down, and removed completely")


async def clear_broken() -> AsyncGenerator[Event, None]:
    """Take down labs whose `up` died: they are neither up nor locked."""
    for name in folder.remove_empty():
        yield events.Notice(subject=name, message=f"removed the remains of lab {name!r}")
    for lab in folder.load_labs():
        if lab.state == "starting" and not folder.is_busy(lab):
            yield progress("removing its remains", subject=lab.spec.name)
            with folder.lock_lab(lab) as now:
                await take_down(now)
            yield events.Notice(subject=lab.spec.name, message=f"removed the remains of lab {lab.spec.name!r}")


async def take_down(lab: StoredLab) -> None:
    """End and remove everything of a lab, its files last."""
    await switch.stop(lab)
    await KINDS[lab.spec.kind].destroy(lab)
    folder.remove(lab)


STATES = Command(key="states", script="sinfo --noheader --Node --format '%N %T'", timeout=30.0)
READY = "idle"
SCHEDULER_QUIET_SECONDS, MOST_SECONDS = 60.0, 600.0
PAUSE_SECONDS = 0.05


async def until_ready(lab: StoredLab, controller: Target) -> None:
    """Wait until every node is idle, which is when Slurm can run jobs there."""
    states: dict[str, str] = {}
    patience = Patience(lambda: tuple(states.items()), quiet=SCHEDULER_QUIET_SECONDS, most=MOST_SECONDS)
    async with live_connector() as connect, Fleet([controller], connect, timeout=STATES.timeout) as fleet:
        while True:
            trouble = await _read_states(fleet, controller.name, states)
            missing = [node.name for node in lab.nodes if states.get(node.name) != READY]
            if not missing:
                return
            if why := patience.at_end():
                reason = trouble or f"{missing[0]} is {states.get(missing[0], 'unknown to it')}"
                log = log_file(lab, controller.name if trouble else missing[0])
                raise HostFault(f"Slurm did not start: {reason}, and {why}", hint=f"see {log}")
            await asyncio.sleep(PAUSE_SECONDS)


async def _read_states(fleet: Fleet, controller: str, states: dict[str, str]) -> str:
    """Read the state of every node as Slurm has it, or return why that fails."""
    try:
        output = await fleet.ask(controller, STATES)
    except DeviceError as error:
        return error.message
    if output.exit != 0:
        return output.trouble
    states |= dict(line.split(maxsplit=1) for line in output.text.splitlines() if " " in line)
    return ""


QUIET_SECONDS, ANSWER_SECONDS = 180.0, 3600.0
"""How long to wait for nodes after the last sign of progress, and at most."""
ASK_SECONDS, LONGEST_ASK_SECONDS = 20.0, 160.0
"""Time-out of a login at first; it doubles after a login that was too slow."""


async def up(spec: Spec) -> AsyncGenerator[Record, None]:
    """Create a lab, and end with the event `lab_up` once every node accepts logins."""
    if spec.nodes < 1 or spec.rails < 1:
        raise UsageError("a lab has at least one node and one rail")
    kind = KINDS[spec.kind]
    kind.admit(spec)
    switch.admit(spec)
    async for event in clear_broken():
        yield event
    async with _new_lab(spec) as lab:
        async with aclosing(kind.build(lab)) as steps:
            async for event in steps:
                yield event
        if spec.switch:
            switch.start(lab)
        cluster = describe(lab)
        lab.cluster_file.write_text(clusterfile.dumps(cluster), encoding="utf-8")
        async with aclosing(_until_all_answer(lab, kind.signs(lab))) as answers:
            async for event in answers:
                yield event
        if spec.switch:
            await switch.settle(lab)
            yield events.LabSwitchUp(subject=SWITCH, message=f"an emulated {spec.switch} answers")
        if spec.scheduler:
            yield progress("waiting for Slurm to have all nodes", subject=spec.name)
            await until_ready(lab, _controller(lab))
            yield events.LabSchedulerUp(subject=CONTROLLER, message="Slurm has all nodes, and they are idle")
        yield events.LabUp(subject=spec.name, cluster=str(lab.cluster_file), nodes=spec.nodes)
        # Last of all: an interruption before this leaves no lab.
        folder.save(replace(lab, state="up"))


@asynccontextmanager
async def _new_lab(spec: Spec) -> AsyncIterator[StoredLab]:
    """Create a lab and hold its lock; take it down again if the block fails."""
    kind = KINDS[spec.kind]
    async with AsyncExitStack() as held:
        with folder.machine_locked():
            lab = held.enter_context(folder.create_lab(spec, await kind.taken_numbers()))
            held.push_async_exit(partial(_take_down_on_failure, lab))
            lab = await _claim_number(lab)
        yield lab


async def _claim_number(lab: StoredLab) -> StoredLab:
    """Reserve the number of a lab, or another one if somebody else is quicker."""
    kind, lost = KINDS[lab.spec.kind], set[int]()
    while True:
        try:
            await kind.claim(lab)
        except folder.NumberTaken:
            lost.add(lab.number)
            lab = folder.renumber(lab, await kind.taken_numbers() | lost)
        else:
            return lab


async def _take_down_on_failure(
    lab: StoredLab, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
) -> None:
    if error is not None:
        # A second Ctrl-C does not interrupt this; the next up or down removes anything that remains.
        await asyncio.shield(take_down(lab))


def describe(lab: StoredLab) -> Cluster:
    """Return the lab as a cluster."""
    return Cluster(
        name=lab.spec.name,
        login=Login(user="root", key=str(lab.key), known_hosts=str(lab.known_hosts)),
        rails={name: Rail(subnet=rail_subnet(lab.number, rail)) for name, rail in lab.rails.items()},
        nodes={node.name: KINDS[lab.spec.kind].describe(lab, node) for node in lab.nodes},
        switches=switch.describe(lab),
        training=Training(min_disk_gb=1.0),
    )


def targets(lab: StoredLab) -> tuple[Target, ...]:
    """Return everything of a lab that accepts logins; the cluster file does not have the controller."""
    return (*targets_of(describe(lab)), *([_controller(lab)] if lab.controller else []))


def _controller(lab: StoredLab) -> Target:
    assert lab.controller
    host = KINDS[lab.spec.kind].describe(lab, lab.controller).host
    return Target(name=CONTROLLER, host=host, login=describe(lab).login)


async def _until_all_answer(lab: StoredLab, signs: Signs) -> AsyncGenerator[Event, None]:
    """Yield an event for each machine that accepts our login."""
    machines = [target for target in targets(lab) if target.kind == "node"]
    missing = dict.fromkeys((target.name for target in machines), "no answer")
    patience = Patience(lambda: (len(missing), signs()), quiet=QUIET_SECONDS, most=ANSWER_SECONDS)
    ask_seconds = ASK_SECONDS
    yield progress("waiting for the nodes to answer", subject=lab.spec.name, waiting=list(missing))
    async with live_connector() as connect:
        while missing:
            start = time.monotonic()
            async with Fleet(machines, connect, timeout=ask_seconds) as fleet:
                async for answer in fleet.run(dict.fromkeys(missing, ())):
                    if answer.failure is None:
                        del missing[answer.device]
                        yield events.LabNodeUp(subject=answer.device, message="answers")
                    else:
                        missing[answer.device] = answer.failure.reason
            if missing and (why := patience.at_end()):
                name, reason = next(iter(missing.items()))
                raise HostFault(f"{name} accepts no login, and {why}: {reason}")
            if time.monotonic() - start >= ask_seconds:
                ask_seconds = min(2 * ask_seconds, LONGEST_ASK_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS if missing else 0)
