"""Power cycles nodes through their BMCs, only on request: shows what would happen, asks, does it, and reads it back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from railbed.configure.request import Callbacks
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.fleet.survey import read_facts
from railbed.model import events
from railbed.model.cluster import LOCAL_HOST, Cluster, bmc_name
from railbed.model.events.general import progress
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Change, Record
from railbed.model.text import plural
from railbed.probes import agents
from railbed.probes.bmc import power
from railbed.transport.base import Command
from railbed.transport.bmc.actions import POWER_CYCLE, POWER_ON

SETTLE_SECONDS, POLL_SECONDS = 3.0, 2.0
BACK_SECONDS = 60.0
"""How long a machine may take until its BMC reports that it is on; booting takes longer."""
ACTION_SECONDS = 20.0
CHECK = "bmc_power"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRequest:
    """Which nodes to power cycle, and whether to do it."""

    nodes: Sequence[str]
    callbacks: Callbacks
    apply: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPlan:
    """What would happen to one node."""

    node: str
    action: str
    before: str
    line: str
    left_out: str = ""

    def record(self) -> Change:
        """Return it as a record."""
        cycle = "off and on again; everything that runs there ends at once"
        return Change(
            subject=self.node,
            action="set",
            before=self.before,
            after="" if self.left_out else cycle if self.action == POWER_CYCLE else "on",
            check=CHECK,
            apply=() if self.left_out else (self.line,),
            left_out=self.left_out,
        )


def require_bmcs(cluster: Cluster, nodes: Iterable[str]) -> None:
    """Refuse nodes that the cluster file does not have, or without a BMC."""
    for name in nodes:
        if name not in cluster.nodes:
            raise UsageError(
                f"--power-cycle {name}: the cluster file has no such node", hint=f"it has {', '.join(cluster.nodes)}"
            )
        if cluster.nodes[name].bmc is None:
            raise UsageError(
                f"--power-cycle {name}: the cluster file has no BMC of {name}", hint=f"add `bmc:` to node {name}"
            )


async def power_cycle(cluster: Cluster, fleet: Fleet, request: PowerRequest) -> AsyncGenerator[Record, None]:
    """Yield what would happen to each node, and with `apply` what happened."""
    yield progress("reading the nodes and their BMCs")
    nodes, bmcs = set(request.nodes), {bmc_name(name) for name in request.nodes}
    facts = await read_facts(fleet.only(nodes | bmcs), cluster, (power.PROBE, agents.PROBE), only=nodes | bmcs)
    plans = [_plan(cluster, name, facts) for name in request.nodes]
    for plan in plans:
        yield plan.record()
    made = [plan for plan in plans if not plan.left_out]
    names = [plan.node for plan in made]
    yield events.ChangesPlanned(
        message=f"{plural(len(made), 'power action')}" if made else "nothing to change",
        devices=names,
        changes=len(made),
        left_out=len(plans) - len(made),
    )
    if not (request.apply and made):
        return
    with request.callbacks.exclusive():
        if not await request.callbacks.confirm(_question(made)):
            yield events.Notice(message="nothing was changed")
            return
        for plan in made:
            async with aclosing(_act(cluster, fleet, plan)) as records:
                async for record in records:
                    yield record


def _plan(cluster: Cluster, node: str, facts: dict[str, DeviceFacts]) -> PowerPlan:
    name = bmc_name(node)
    _, bmc = cluster.bmcs()[name]
    reading = facts[name].read(power.PROBE)
    state = reading.facts.power if isinstance(reading, Known) else None
    action = POWER_ON if state == "off" else POWER_CYCLE
    running = facts[node].read(agents.PROBE)
    answers = isinstance(running, Known)
    runs = running.facts.agents if isinstance(running, Known) else ()
    before = [f"power {state}" if state else "", f"{node} answers" if answers else f"{node} does not answer"]
    before += [f"{agent.kind} {agent.job} of {agent.user} runs there" for agent in runs]
    words = "chassis power on" if action == POWER_ON else "chassis power cycle"
    return PowerPlan(
        node=node,
        action=action,
        before=", ".join(filter(None, before)),
        line=f"ipmitool -H {bmc.host} {words}" if bmc.uses_ipmi else f"{action}: ComputerSystem.Reset at {bmc.host}",
        left_out=_obstacle(cluster, node, facts[name], state, answers=answers),
    )


def _obstacle(cluster: Cluster, node: str, facts: DeviceFacts, state: str | None, *, answers: bool) -> str:
    """Return why a node is left alone; empty if nothing speaks against it."""
    if cluster.nodes[node].host == LOCAL_HOST:
        return "railbed itself runs on this machine"
    if facts.failure is not None:
        return f"its BMC cannot be used: {facts.failure.reason}"
    if state is None:
        return "its BMC reports no power state"
    if state == "off" and answers:
        return f"{node} answers although this BMC reports power off: it is the BMC of another machine"
    return ""


def _question(plans: Sequence[PowerPlan]) -> str:
    cycled = [plan.node for plan in plans if plan.action == POWER_CYCLE]
    started = [plan.node for plan in plans if plan.action == POWER_ON]
    parts = [f"switch {', '.join(cycled)} off and on again"] if cycled else []
    parts += [f"switch {', '.join(started)} on"] if started else []
    return f"{' and '.join(parts)}?"


async def _act(cluster: Cluster, fleet: Fleet, plan: PowerPlan) -> AsyncGenerator[Record, None]:
    name = bmc_name(plan.node)
    yield events.ChangeStarted(subject=plan.node, message=plan.action)
    command = Command(key="bmc_action", script=plan.action, timeout=ACTION_SECONDS)
    async with aclosing(fleet.only({name}).run({name: [command]})) as answers:
        answer = await anext(answers)
    output = answer.outputs[0] if answer.outputs else None
    if answer.failure is not None or output is None or output.exit != 0:
        reason = answer.failure.reason if answer.failure else output.trouble if output else "no answer"
        yield events.DeviceChanged(
            subject=plan.node, message=f"{plan.node}: the BMC did not do it: {reason}", outcome="refused"
        )
        return
    yield progress(f"waiting until the BMC of {plan.node} reports that it is on")
    if await _is_back(cluster, fleet, name):
        done = "was switched on" if plan.action == POWER_ON else "was switched off and on again"
        message = f"{plan.node} {done}; it may boot for minutes: `railbed check reachable` shows when it answers"
        yield events.DeviceChanged(subject=plan.node, message=message, outcome="applied")
    else:
        message = (
            f"{plan.node}: the BMC accepted `{plan.action}`, but does not report power on {BACK_SECONDS:g} s later"
        )
        yield events.DeviceChanged(subject=plan.node, message=message, outcome="unknown")


async def _is_back(cluster: Cluster, fleet: Fleet, name: str) -> bool:
    """Whether the BMC reports power on before long; while the power changes, it may not answer."""
    deadline = time.monotonic() + BACK_SECONDS
    await asyncio.sleep(SETTLE_SECONDS)
    while time.monotonic() < deadline:
        facts = await read_facts(fleet.only({name}), cluster, (power.PROBE,), only={name})
        reading = facts[name].read(power.PROBE)
        if isinstance(reading, Known) and reading.facts.power == "on":
            return True
        await asyncio.sleep(POLL_SECONDS)
    return False
