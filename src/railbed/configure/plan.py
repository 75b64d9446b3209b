"""What configure would do: the fixes of findings, per device and in order; what it leaves out, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from railbed.configure.management import management_cut, switch_cut
from railbed.configure.order import in_order
from railbed.configure.persist.persistence import persistence_of
from railbed.configure.planned import PlannedFix
from railbed.configure.switchlines import merged
from railbed.model.cluster import DeviceKind
from railbed.model.fix import FileStep, Fix, Persistence, RunStep
from railbed.model.record import WRONG, Change, Finding
from railbed.parsing.nexus.switch_lock import Holder, describe_lock, way_out
from railbed.probes import pending_change
from railbed.probes.nexus import checkpoints
from railbed.rules.site import NodeView, Site


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
    nodes = {node.name: node for node in site.nodes}
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
    devices = [_device_plan(name, fixes, nodes.get(name), lasting=lasting) for name, fixes in wanted.items()]
    order = [*site.cluster.nodes, *site.cluster.switches]
    devices.sort(key=lambda plan: order.index(plan.device))
    return Plan(devices=tuple(devices), left_out=tuple(left_out))


def _device_plan(device: str, fixes: Sequence[PlannedFix], node: NodeView | None, *, lasting: bool) -> DevicePlan:
    if node is None:
        return DevicePlan(device=device, kind="switch", changes=merged(fixes))
    ordered = in_order(fixes)
    at_boot = persistence_of(node, ordered) if lasting else ()
    return DevicePlan(device=device, kind="node", changes=(*ordered, *at_boot))


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
        return f"needs your decision: {decision}; `railbed configure --rule {planned.checks[0]}` includes it"
    return ""
