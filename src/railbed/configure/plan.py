"""What configure would do: the fixes of findings, per device and in order; what it leaves out, and why.

Each fix of a node comes after those it depends on, and equal fixes only once. Changes that would cut the network path
over which railbed reaches the device are refused.
"""

from __future__ import annotations

import heapq
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from graphlib import TopologicalSorter
from operator import or_

from railbed.check.book import CHECK_BOOK
from railbed.configure.persist import persistence_of
from railbed.configure.planned import PlannedFix
from railbed.configure.switchlines import merge_lines
from railbed.model.cluster import DeviceKind
from railbed.model.fix import NOTHING, ConfigStep, FileStep, Fix, Persistence, RunStep
from railbed.model.record import WRONG, Change, Finding
from railbed.parsing.nexus.switch_lock import Holder, describe_lock, way_out
from railbed.probes import ip_addr, pending_change, ssh_session
from railbed.probes.nexus import checkpoints, running_qos
from railbed.rules.site import NodeView, Site


def in_order(fixes: Sequence[PlannedFix]) -> tuple[PlannedFix, ...]:
    """Return fixes in the order to apply them; two rules that need the same change share it."""
    unique = sorted(_merge(fixes), key=_rank)
    before = {
        index: {other for other, earlier in enumerate(unique) if set(earlier.checks) & set(planned.fix.after)} - {index}
        for index, planned in enumerate(unique)
    }
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ordered: list[PlannedFix] = []
    ready: list[int] = []
    while sorter.is_active():
        # One at a time, always the first whose dependencies are met: this keeps the usual order as far as possible.
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        first = heapq.heappop(ready)
        ordered.append(unique[first])
        sorter.done(first)
    return tuple(ordered)


def _rank(planned: PlannedFix) -> tuple[int, str, str]:
    """Return the place that the rules give it, the lowest if several need it."""
    rank = min(CHECK_BOOK.rules[check].rank for check in planned.checks)
    return rank, planned.checks[0], planned.subject


def _merge(fixes: Sequence[PlannedFix]) -> list[PlannedFix]:
    by_steps: dict[tuple[object, ...], PlannedFix] = {}
    for planned in fixes:
        key = _identity(planned.fix)
        by_steps[key] = by_steps[key].also_for(planned.checks) if key in by_steps else planned
    return list(by_steps.values())


def _identity(fix: Fix) -> tuple[object, ...]:
    return (fix.device, fix.apply, fix.at_boot_only)


_CUTS = re.compile(
    r"(?:no )?(?:interface (?:mgmt|vlan)|vrf (?:context|member)|line (?:vty|console)|default )"
    r"|(?:no )?(?:ssh|feature (?:ssh|interface-vlan)|username|aaa|switchport|channel-group|mac access-|control-plane)\b"
    r"|(?:no )?ipv?6? (?:address|route|access-\w+)\b|no (?:vlan|interface)\b|shutdown\b",
    re.IGNORECASE,
)
"""Lines that change how a switch is reached; no fix needs them."""


def management_cut(node: NodeView, fix: Fix) -> str:
    """Return how a fix would cut the path; empty if it does not, or if railbed runs on the node itself."""
    session = node.try_read(ssh_session.PROBE)
    if session is None or session.address is None:
        return ""
    addresses = node.try_read(ip_addr.PROBE)
    netdevs = [session.netdev] if session.netdev else []
    if addresses:
        netdevs += [
            name for name, owned in addresses.interfaces.items() if session.address in {item.address for item in owned}
        ]
    for step in fix.apply:
        words = _words(step.command) if isinstance(step, RunStep) else []
        if words[:3] in (["ip", "addr", "del"], ["ip", "address", "del"]) and _address(words) == session.address:
            return f"refused: railbed reaches {node.name} at {session.address}, which this would remove"
        if words[:3] == ["ip", "link", "set"] and "down" in words and set(words) & set(netdevs):
            return f"refused: railbed reaches {node.name} through {netdevs[0]}, which this would turn off"
    return ""


def switch_cut(fix: Fix) -> str:
    """Return which line of a switch's configuration would cut the path to it; empty if none does."""
    lines = [line for step in fix.apply if isinstance(step, ConfigStep) for line in step.lines]
    cutting = next((line.strip() for line in lines if _CUTS.match(line.strip())), "")
    return f"refused: `{cutting}` would cut the path to {fix.device}" if cutting else ""


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _address(words: list[str]) -> str:
    return words[3].partition("/")[0] if len(words) > 3 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """The changes of one device, in order."""

    device: str
    kind: DeviceKind
    changes: tuple[PlannedFix, ...]

    @property
    def fix(self) -> Fix:
        """All changes as one fix: a device is changed and undone as a whole."""
        fixes = [_with_parts(change) for change in self.changes]
        return Fix(
            device=self.device,
            apply=tuple(step for fix in fixes for step in fix.apply),
            undo=tuple(step for fix in reversed(fixes) for step in fix.undo),
            persistence=Persistence.KEPT,
            interrupts=any(fix.interrupts for fix in fixes),
            interruption=reduce(or_, (fix.interruption for fix in fixes), NOTHING),
            seconds=sum(fix.seconds for fix in fixes),
        )


def _with_parts(planned: PlannedFix) -> Fix:
    """Return a fix whose steps name the change that they belong to, so that its undo can leave out single changes."""
    part = ", ".join(f"{check} {planned.subject}" for check in planned.checks)
    apply, undo = (
        tuple(replace(step, part=part) if isinstance(step, RunStep | FileStep) else step for step in steps)
        for steps in (planned.fix.apply, planned.fix.undo)
    )
    return replace(planned.fix, apply=apply, undo=undo)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be changed, and what would be left out."""

    devices: tuple[DevicePlan, ...]
    left_out: tuple[tuple[PlannedFix, str], ...] = ()
    """Fixes that are not applied, each with the reason."""

    def records(self) -> Iterator[Change]:
        """Yield every change."""
        for device in self.devices:
            yield from (change.record() for change in device.changes)
        yield from (change.record(left_out=reason) for change, reason in self.left_out)


def make_plan(
    site: Site,
    findings: Iterable[Finding],
    *,
    only: Collection[str],
    named: Collection[str],
    lasting: bool = True,
    has_ended: Callable[[Holder], bool] = lambda _: False,
) -> Plan:
    """Plan the fixes of findings, on the devices in `only` (all if empty).

    A fix that needs a person's decision is applied only if its rule is among those that the user `named`. Changes that
    are not `lasting` are not kept at reboot. `has_ended` decides whether a lock on a switch can be taken over.
    """
    wanted: dict[str, list[PlannedFix]] = {}
    left_out: list[tuple[PlannedFix, str]] = []
    nodes = site.nodes_by_name
    busy = dict(_busy_devices(site, has_ended))
    for finding in findings:
        if finding.fix is None or finding.verdict not in WRONG or (only and finding.fix.device not in only):
            continue
        planned = PlannedFix.of(finding, finding.fix)
        reason = _obstacle(planned, nodes.get(finding.fix.device), busy, named)
        if reason:
            left_out.append((planned, reason))
        else:
            wanted.setdefault(finding.fix.device, []).append(planned)
    planned_devices = (_device_plan(site, name, fixes, lasting=lasting) for name, fixes in wanted.items())
    devices = [device for device in planned_devices if device.changes]
    order = [*site.cluster.switches, *site.cluster.nodes]
    devices.sort(key=lambda plan: order.index(plan.device))
    return Plan(devices=tuple(devices), left_out=tuple(left_out))


def _device_plan(site: Site, device: str, fixes: Sequence[PlannedFix], *, lasting: bool) -> DevicePlan:
    node = site.nodes_by_name.get(device)
    if node is None:
        switch = next(switch for switch in site.switches if switch.name == device)
        running = switch.try_read(running_qos.PROBE)
        return DevicePlan(device=device, kind="switch", changes=merge_lines(fixes, running.places if running else None))
    ordered = in_order(fixes)
    at_boot = tuple(persistence_of(node, ordered)) if lasting else ()
    # Without a file to write, there is nothing to do for what is right until the next boot.
    now = (change.without_steps() for change in ordered if at_boot or not change.fix.at_boot_only)
    return DevicePlan(device=device, kind="node", changes=(*now, *at_boot))


def _busy_devices(site: Site, has_ended: Callable[[Holder], bool]) -> Iterator[tuple[str, str]]:
    """Yield devices that others are changing, each with the reason to leave it alone."""
    for node in site.nodes:
        pending = node.try_read(pending_change.PROBE)
        if pending and pending.state == "held":
            yield node.name, f"{node.name} is being changed by {pending.holder}"
    for switch in site.switches:
        state = switch.try_read(checkpoints.PROBE)
        if state and state.lock and not (state.holder and has_ended(state.holder)):
            yield switch.name, f"{switch.name} is {describe_lock(state.holder)}; {way_out(state.holder)}"


def _obstacle(planned: PlannedFix, node: NodeView | None, busy: Mapping[str, str], named: Collection[str]) -> str:
    """Return why a fix is not applied; empty if nothing prevents it."""
    fix = planned.fix
    cut = management_cut(node, fix) if node else switch_cut(fix)
    if cut:
        return cut
    if fix.device in busy:
        return busy[fix.device]
    if fix.needs_decision and not set(planned.checks) & set(named):
        decision = fix.condition or f"unless the cluster file is wrong ({fix.alternative})"
        ways = f"`railbed configure --rule {planned.checks[0]}` includes it, `--all` all of them"
        return f"needs your decision: {decision}; {ways}"
    return ""
