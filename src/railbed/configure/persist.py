"""What makes the settings of a node survive a reboot: its network configuration, and a systemd unit for the rest.

Addresses and MTUs go into the configuration that the node reads at boot: netplan, systemd-networkd or ifupdown.
railbed's settings are in separate files beside other people's, with the values in a comment on the first line. A file
holds all settings that configure made; a later run adds to them.

All other settings are in a systemd unit (`parsing/boot_unit.py`).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_interface

from railbed.configure.planned import PlannedFix, file_difference
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, Step, as_steps
from railbed.parsing.boot_unit import read_unit, render_unit
from railbed.probes import boot_config, boot_network
from railbed.probes.boot_config import IFUPDOWN, NETPLAN, NETWORKD, UNIT, BootConfig
from railbed.rules.site import NodeView

NOTE = "# Written by `railbed configure`; `railbed configure --undo RUN` removes it."
VALUES = "# railbed: "
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]*")
"""Names of interfaces that stand for themselves in all three kinds of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSettings:
    """The settings of an interface; None leaves a setting alone."""

    mtu: int | None = None
    address: str | None = None
    """With its prefix."""

    def over(self, earlier: PortSettings) -> PortSettings:
        """Return these settings with the gaps filled from earlier ones."""
        return PortSettings(mtu=self.mtu or earlier.mtu, address=self.address or earlier.address)


def network_files(boot: BootConfig, wanted: Mapping[str, PortSettings]) -> dict[str, str]:
    """Return the files, by path, that make the settings of interfaces, and those of earlier runs, survive a reboot.

    There are none if a name has another meaning in them, such as several interfaces: they have no quotes for names.
    """
    ports = dict(wanted)
    for text in boot.files.values():
        for netdev, earlier in read_values(text).items():
            ports[netdev] = ports.get(netdev, PortSettings()).over(earlier)
    if not ports or not all(map(PLAIN.fullmatch, ports)):
        return {}
    match boot.manager:
        case "netplan":
            return {NETPLAN: _netplan(ports, boot)}
        case "ifupdown":
            return {IFUPDOWN: _ifupdown(ports)}
        case "networkd":
            return {
                _networkd_path(netdev, boot): _networkd(netdev, settings, boot) for netdev, settings in ports.items()
            }
    return {}


def read_values(text: str) -> dict[str, PortSettings]:
    """Return the settings in the first line of a file that railbed wrote; of any other file, none."""
    first = text.partition("\n")[0]
    if not first.startswith(VALUES):
        return {}
    try:
        return {netdev: _settings(**values) for netdev, values in json.loads(first.removeprefix(VALUES)).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _settings(mtu: int | None = None, address: str | None = None) -> PortSettings:
    """Return settings that a file has; raise ValueError if they are not a whole number and an address."""
    if mtu is not None and type(mtu) is not int:
        raise ValueError(mtu)
    return PortSettings(mtu=mtu, address=None if address is None else str(ip_interface(address)))


def _head(ports: Mapping[str, PortSettings]) -> list[str]:
    values = {netdev: asdict(settings) for netdev, settings in ports.items()}
    return [f"{VALUES}{json.dumps(values)}", NOTE]


def _netplan(ports: Mapping[str, PortSettings], boot: BootConfig) -> str:
    """Return a netplan file, which only adds to the others: netplan merges them."""
    lines = [*_head(ports), "network:", "  version: 2", "  ethernets:"]
    for netdev, settings in ports.items():
        lines.append(f"    {json.dumps(boot.netplan_ids.get(netdev, netdev))}:")
        lines += [f"      mtu: {settings.mtu}"] if settings.mtu else []
        lines += [f"      addresses: [{json.dumps(settings.address)}]"] if settings.address else []
        # An interface without a link must not hold up the boot.
        lines.append("      optional: true")
    return "\n".join(lines) + "\n"


def _networkd_path(netdev: str, boot: BootConfig) -> str:
    """Return the path of a drop-in for the file that applies to the interface, else of a file of its own."""
    existing = boot.network_files.get(netdev, "").rpartition("/")[2]
    if existing and not existing.startswith("10-railbed-"):
        return f"{NETWORKD}/{existing}.d/90-railbed.conf"
    return f"{NETWORKD}/10-railbed-{netdev}.network"


def _networkd(netdev: str, settings: PortSettings, boot: BootConfig) -> str:
    lines = _head({netdev: settings})
    if _networkd_path(netdev, boot).endswith(".network"):
        lines += ["[Match]", f"Name={netdev}", ""]
    lines += ["[Link]", f"MTUBytes={settings.mtu}", ""] if settings.mtu else []
    lines += ["[Network]", f"Address={settings.address}", ""] if settings.address else []
    return "\n".join(lines)


def _ifupdown(ports: Mapping[str, PortSettings]) -> str:
    """Return stanzas that ifupdown runs in addition to those in other files for the interfaces."""
    lines = _head(ports)
    for netdev, settings in ports.items():
        lines += ["", f"auto {netdev}", f"iface {netdev} inet manual"]
        lines.append(f"    up ip link set dev {netdev}{f' mtu {settings.mtu}' if settings.mtu else ''} up")
        lines += [f"    up ip addr replace {settings.address} dev {netdev}"] if settings.address else []
    return "\n".join(lines) + "\n"


NAME = UNIT.rpartition("/")[2]
IN_FILES = ("mtu", "rail_address")
"""Rules whose settings are in the network configuration."""
FOLDERS = {posixpath.dirname(path) for path in (UNIT, NETPLAN, IFUPDOWN)} | {NETWORKD}
"""Folders that exist wherever they are read."""

_DISABLE = RunStep(command=f"systemctl disable --quiet {NAME}", only_if=f"systemctl is-enabled --quiet {NAME}")


def persistence_of(node: NodeView, changes: Sequence[PlannedFix]) -> Iterator[PlannedFix]:
    """Yield the changes that write the files which make other changes survive a reboot, and enable them."""
    boot = node.try_read(boot_config.PROBE)
    if boot is None or not boot.systemd:
        return
    network = [change for change in changes if change.fix.persistence is Persistence.NETWORK]
    settings = _persistence_settings(node, network)
    files = {} if _is_shared(node, settings) else network_files(boot, settings)
    for path, content in files.items():
        if content != boot.files.get(path):
            yield _file(node.name, path, boot.files.get(path, ""), content, after=_validate(path))
    kernel = [change for change in changes if change.fix.persistence is Persistence.BOOT]
    others = [change for change in network if not files or not _is_in_files(change, settings)]
    yield from _unit(node.name, boot, [*kernel, *others])


def _is_in_files(change: PlannedFix, settings: Collection[str]) -> bool:
    """Whether the files store a change: a service that has an address or MTU of an interface switches it on as well."""
    return change.subject.partition("/")[2] in settings and bool(set(change.checks) & {*IN_FILES, "link_up"})


def _is_shared(node: NodeView, netdevs: Collection[str]) -> bool:
    """Whether a file for an interface would also be about others, or compete with a connection of NetworkManager."""
    facts = node.try_read(boot_network.PROBE)
    ports = [facts.ports[netdev] for netdev in netdevs if netdev in facts.ports] if facts else []
    return any(stored.is_shared for port in ports for stored in port.stored)


def _persistence_settings(node: NodeView, changes: Iterable[PlannedFix]) -> dict[str, PortSettings]:
    """Return the settings of each port in the cluster file, as far as the rules behind the changes set them."""
    rules: dict[str, set[str]] = {}
    for change in changes:
        rules.setdefault(change.subject.partition("/")[2], set()).update(change.checks)
    settings = {}
    for port in node.ports:
        checks = rules.get(port.port.netdev, set())
        if not checks & set(IN_FILES):
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
    is_off = not earlier or boot.unit_enabled is False
    if content != earlier or is_off:
        enabling = as_steps(f"systemctl enable --quiet {NAME}") if is_off else ()
        disabling = (_DISABLE,) if is_off else ()
        yield _file(device, UNIT, earlier, content, after=enabling, undo=disabling)


def _validate(path: str) -> tuple[Step, ...]:
    """Return the step that has netplan read the files, so that a mistake shows before the reboot."""
    return as_steps("netplan generate") if path == NETPLAN else ()


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
