"""The verb: read the devices, plan the fixes of failing rules, show them; apply them and check again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing
from typing import Any

from railbed.check.book import CHECK_BOOK, probes_needed
from railbed.check.rules import pending_change as pending_rule
from railbed.check.rules import reachable
from railbed.check.rules import switch_pending as switch_pending_rule
from railbed.check.run import check, read_devices
from railbed.configure.apply import change_devices
from railbed.configure.plan import Plan, make_plan
from railbed.configure.planned import names_of, pauses
from railbed.configure.render import rendered_files
from railbed.configure.request import Callbacks, ConfigureRequest
from railbed.configure.wheels import INSTALLING
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.fix import Persistence
from railbed.model.probe import PairTest, Probe
from railbed.model.reading import DeviceFacts
from railbed.model.record import Finding, Record, Verdict
from railbed.model.text import plural
from railbed.parsing.nexus.switch_lock import checkpoint_name
from railbed.probes import boot_config, boot_network, ip_addr, pending_change, ssh_session
from railbed.probes.nexus import checkpoints
from railbed.rules.engine import judge
from railbed.rules.rule import Rule
from railbed.rules.site import Site
from railbed.store.undo import Unfinished

OWN_PROBES: tuple[Probe[Any], ...] = (
    *(boot_config.PROBE, boot_network.PROBE, pending_change.PROBE, ip_addr.PROBE, ssh_session.PROBE),
    checkpoints.PROBE,
)
ALWAYS: tuple[Rule[Any], ...] = (reachable.RULE, pending_rule.RULE, switch_pending_rule.RULE)
"""Reported no matter which rules were chosen: they make it impossible to change a device."""


def checks_with_fixes(checks: Collection[Rule[Any]]) -> list[Rule[Any]]:
    """Return the rules that may carry a fix: not those that read BMCs or test pairs of nodes, which take long."""
    return [check for check in checks if check.scope != "BMC" and not _tests_pairs(check)]


def _tests_pairs(check: Rule[Any]) -> bool:
    return any(isinstance(probe.command, PairTest) for probe in check.probes)


async def configure(cluster: Cluster, fleet: Fleet, request: ConfigureRequest) -> AsyncGenerator[Record, None]:
    """Yield what was read, the changes, and with `apply` their outcome and the findings afterwards."""
    devices: dict[str, DeviceFacts] = {}
    probes = {probe.name: probe for probe in (*probes_needed(request.checks, cluster), *OWN_PROBES)}
    async with aclosing(read_devices(cluster, fleet, probes.values(), devices)) as records:
        async for record in records:
            yield record
    site = Site(cluster, devices)
    plan = make_plan(
        site,
        _findings(site, request),
        only=request.only,
        named=request.named,
        has_ended=request.callbacks.has_ended,
    )
    # A device that is about to be changed is judged afterwards.
    changing = {device.device for device in plan.devices} if request.mode == "apply" else set()
    wrong = [finding for finding in judge(CHECK_BOOK, site, ALWAYS) if finding.verdict is not Verdict.OK]
    for finding in wrong:
        if finding.subject not in changing:
            yield finding
    for event in _report_unfinished(site, request.callbacks):
        yield event
    for change in plan.records():
        yield change
    if forgetful := forgetful_devices(site, plan):
        yield events.Notice(
            message=f"{names_of(forgetful)}: a reboot loses the changes, since systemd does not run there"
        )
    yield planned_event(plan)
    match request.mode:
        case "render" if plan.devices:
            files = rendered_files(plan)
            folder = request.callbacks.write(files)
            yield events.FilesRendered(message=f"written to {folder}", folder=folder, files=sorted(files))
        case "apply" if plan.devices:
            also = {finding.check for finding in wrong if finding.subject in changing}
            async with aclosing(_apply(cluster, fleet, request, plan, also)) as records:
                async for record in records:
                    yield record


def _findings(site: Site, request: ConfigureRequest) -> Iterator[Finding]:
    findings = judge(CHECK_BOOK, site, request.checks)
    return request.wheels.install_from(site.cluster, findings) if request.wheels else findings


async def _apply(
    cluster: Cluster, fleet: Fleet, request: ConfigureRequest, plan: Plan, also: Collection[str]
) -> AsyncGenerator[Record, None]:
    """Yield the outcome on each device, then the findings of the rules behind the changes, and of those in `also`."""
    with request.callbacks.exclusive():
        if not await request.callbacks.confirm(question(plan)):
            yield events.Notice(message="nothing was changed")
            return
        refused = await _send_wheels(cluster, fleet, request, plan)
        for name, reason in refused.items():
            message = f"{name} was not changed: it did not get the wheels: {reason}"
            yield events.DeviceChanged(subject=name, message=message, outcome="refused")
        fixes = [device.fix for device in plan.devices if device.device not in refused]
        async with aclosing(change_devices(fleet, fixes, request.callbacks, outcome="applied")) as records:
            async for record in records:
                yield record
    rules = {name for device in plan.devices for change in device.changes for name in change.checks}
    checks = [chosen for chosen in request.checks if chosen.name in rules]
    checks += [chosen for chosen in ALWAYS if chosen.name in also]
    async with aclosing(check(cluster, fleet, checks)) as records:
        async for record in records:
            if not (isinstance(record, Finding) and _is_left_alone(cluster, record, request.only)):
                yield record


def _is_left_alone(cluster: Cluster, finding: Finding, only: Collection[str]) -> bool:
    """Whether a finding is about a device that the request leaves alone."""
    device = finding.subject.partition("/")[0]
    return bool(only) and device not in only and (device in cluster.nodes or device in cluster.switches)


async def _send_wheels(cluster: Cluster, fleet: Fleet, request: ConfigureRequest, plan: Plan) -> dict[str, str]:
    """Send wheels to the nodes that get an environment or libraries; return why some did not receive them."""
    if request.wheels is None:
        return {}
    names = [
        device.device
        for device in plan.devices
        if any(INSTALLING.intersection(change.checks) for change in device.changes)
    ]
    return await request.wheels.send(fleet, cluster, names, request.callbacks.run_name())


def planned_event(plan: Plan) -> events.ChangesPlanned:
    """Return the event that sums up a plan."""
    count = sum(len(device.changes) for device in plan.devices)
    return events.ChangesPlanned(
        message=f"{plural(count, 'change')} on {plural(len(plan.devices), 'device')}" if count else "nothing to change",
        devices=[device.device for device in plan.devices],
        changes=count,
        left_out=len(plan.left_out),
        interrupts=[device.device for device in plan.devices if device.fix.interrupts],
    )


def question(plan: Plan) -> str:
    """Return the question to the user."""
    devices = [device.device for device in plan.devices]
    return f"change {names_of(devices)}{pauses([device.fix for device in plan.devices])}?"


def forgetful_devices(site: Site, plan: Plan) -> list[str]:
    """Return the nodes with changes that are lost at reboot, because nothing there could apply them again."""
    boots = {node.name: node.try_read(boot_config.PROBE) for node in site.nodes}
    return [
        device.device
        for device in plan.devices
        if (boot := boots.get(device.device)) is not None
        and not boot.systemd
        and any(change.fix.persistence is not Persistence.KEPT for change in device.changes)
    ]


def _report_unfinished(site: Site, callbacks: Callbacks) -> Iterator[Record]:
    """Yield the runs that cannot be undone, and the devices whose latest change was cut short, with the way out."""
    for message in callbacks.unreadable:
        yield events.Notice(message=message)
    nodes = {node.name: node.try_read(pending_change.PROBE) for node in site.nodes}
    switches = {switch.name: switch.try_read(checkpoints.PROBE) for switch in site.switches}
    for device, change in callbacks.unfinished.items():
        if device not in site.cluster.nodes and device not in site.cluster.switches:
            continue
        pending, state = nodes.get(device), "it may be half-changed"
        if pending and pending.state == "none":
            state = "no change is pending there: the node restored itself, or was rebooted"
        elif facts := switches.get(device):
            state = _switch_state(facts, change)
        if not state:
            continue
        yield events.ChangeUnfinished(
            subject=device,
            message=f"{'the undo of ' if change.undoing else ''}run {change.run} was cut short while it changed "
            f"{device}; {state}. `railbed configure --undo {change.run}` restores the state before that run, "
            f"`railbed configure --apply` makes the changes below",
            run=change.run,
        )


def _switch_state(facts: checkpoints.Checkpoints, change: Unfinished) -> str:
    """Return what the checkpoints of a switch show about a change that was cut short; empty if its undo is complete."""
    if facts.lock:
        return "it may be half-changed"
    left = checkpoint_name(change.run) in facts.names
    if change.undoing:
        return "no change is pending there: the undo had not begun" if left else ""
    return f"no change is pending there: the change {'was complete' if left else 'was undone'}"
