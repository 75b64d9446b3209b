"""The changes that make a node's other changes survive a reboot."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from railbed.configure.persist.network import PortSettings, network_files
from railbed.configure.persist.unit import NAME, read_unit, render_unit
from railbed.configure.planned import PlannedFix, file_difference
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, Step, run
from railbed.probes import boot_config
from railbed.probes.boot_config import IFUPDOWN, NETPLAN, NETWORKD, UNIT, BootConfig
from railbed.rules.site import NodeView

FOLDERS = {posixpath.dirname(path) for path in (UNIT, NETPLAN, IFUPDOWN)} | {NETWORKD}
"""Folders that exist wherever they are read."""

_DISABLE = RunStep(command=f"systemctl disable --quiet {NAME}", only_if=f"systemctl is-enabled --quiet {NAME}")


def persistence_of(node: NodeView, changes: Sequence[PlannedFix]) -> Iterator[PlannedFix]:
    """Yield the changes that write the files which make other changes survive a reboot, and enable them."""
    boot = node.try_read(boot_config.PROBE)
    if boot is None or not boot.systemd:
        return
    network = [change for change in changes if change.fix.persistence is Persistence.NETWORK]
    files = network_files(boot, _settings(node, network))
    for path, content in files.items():
        if content != boot.files.get(path):
            yield _file(node.name, path, boot.files.get(path, ""), content, after=_validate(path))
    kernel = [change for change in changes if change.fix.persistence is Persistence.BOOT]
    yield from _unit(node.name, boot, [*kernel, *(network if not files else ())])


def _settings(node: NodeView, changes: Iterable[PlannedFix]) -> dict[str, PortSettings]:
    """Return the settings of each port in the cluster file, as far as the rules behind the changes set them."""
    rules: dict[str, set[str]] = {}
    for change in changes:
        rules.setdefault(change.subject.partition("/")[2], set()).update(change.checks)
    settings = {}
    for port in node.ports:
        checks = rules.get(port.port.netdev, set())
        if not checks & {"mtu", "rail_address"}:
            continue
        prefix = port.rail.subnet.prefixlen if port.rail.subnet else port.port.address.max_prefixlen
        settings[port.port.netdev] = PortSettings(
            mtu=port.mtu if "mtu" in checks else None,
            address=f"{port.port.address}/{prefix}" if "rail_address" in checks else None,
        )
    return settings


def _unit(device: str, boot: BootConfig, changes: Sequence[PlannedFix]) -> Iterator[PlannedFix]:
    """Yield the unit with the commands of these changes, and those that it already has."""
    if not changes:
        return
    earlier = boot.files.get(UNIT, "")
    commands = {
        f"{change.checks[0]} {change.subject.partition('/')[2]}".rstrip(): [
            step.command for step in change.fix.apply if isinstance(step, RunStep)
        ]
        for change in changes
    }
    content = render_unit({**read_unit(earlier), **commands})
    if content != earlier:
        enabling = () if earlier else run(f"systemctl enable --quiet {NAME}")
        disabling = () if earlier else (_DISABLE,)
        yield _file(device, UNIT, earlier, content, after=enabling, undo=disabling)


def _validate(path: str) -> tuple[Step, ...]:
    """Return the step that has netplan read the files, so that a mistake shows before the reboot."""
    return run("netplan generate") if path == NETPLAN else ()


def _file(
    device: str, path: str, earlier: str, content: str, *, after: tuple[Step, ...], undo: tuple[Step, ...] = ()
) -> PlannedFix:
    # netplan refuses files that others can read.
    mode = "600" if path == NETPLAN else "644"
    file = FileStep(path=path, content=content, mode=mode, own_folder=posixpath.dirname(path) not in FOLDERS)
    return PlannedFix(
        checks=("boot",),
        subject=device,
        before="",
        after=f"{path} {'also restores this' if earlier else 'restores this'} at boot",
        fix=Fix(device=device, apply=(file, *after), undo=undo, persistence=Persistence.KEPT),
        shown=file_difference(earlier, content, path) if earlier else (),
    )
