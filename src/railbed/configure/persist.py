"""What makes the settings of a node survive a reboot.

The changes that make a node's other changes survive a reboot.

Addresses and MTUs in the network configuration that a node reads at boot: netplan, systemd-networkd or ifupdown.

railbed's settings are in separate files beside other people's, with the values in a comment on the first line. A file
holds all settings that configure made; a later run adds to them.

The systemd unit that applies settings at boot which the kernel and the cards would otherwise lose.

Each setting is a block under a comment with its key, so that a later run can replace it: the rule and the port, or the
rule alone for a setting of the node itself.
"""

from __future__ import annotations

import json
import posixpath
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_interface

from railbed.configure.planned import PlannedFix, file_difference
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, Step, run
from railbed.probes import boot_config
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
    if not all(map(PLAIN.fullmatch, ports)):
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
        lines += [f"    up ip link set dev {netdev} mtu {settings.mtu} up"] if settings.mtu else []
        lines += [f"    up ip addr replace {settings.address} dev {netdev}"] if settings.address else []
    return "\n".join(lines) + "\n"


NAME = UNIT.rpartition("/")[2]
HEAD = """\
# Written by `railbed configure`: settings that are lost at reboot. `railbed configure --undo RUN` removes it.
[Unit]
Description=Settings of the rails that are lost at reboot
Wants=network-online.target
After=network-online.target systemd-modules-load.service rdma-hw.target openibd.service {devices}

[Service]
Type=oneshot
RemainAfterExit=yes
"""
FOOT = """\

[Install]
WantedBy=multi-user.target
"""
UNESCAPED = f"{string.ascii_letters}{string.digits}:_."
_KEY = re.compile(r"# (?P<key>\S+(?: \S+)?)")
_QUOTED = re.compile(r"\\.|%%|\$\$")
_COMMAND = re.compile(r'ExecStart=-/bin/sh -c "(?P<command>.*)"')


def render_unit(settings: Mapping[str, Iterable[str]]) -> str:
    """Return the unit for commands by key; a command that fails does not prevent the next."""
    ports = dict.fromkeys(port for key in settings if (port := key.partition(" ")[2]))
    devices = " ".join(f"sys-subsystem-net-devices-{_escape(port)}.device" for port in ports)
    blocks = (
        "\n".join([f"# {key}", *(f'ExecStart=-/bin/sh -c "{_quote(command)}"' for command in commands)])
        for key, commands in settings.items()
    )
    return HEAD.format(devices=devices).replace(" \n", "\n") + "\n".join(blocks) + "\n" + FOOT


def read_unit(text: str) -> dict[str, list[str]]:
    """Return the commands by key from a unit that `render_unit` wrote."""
    settings: dict[str, list[str]] = {}
    key = ""
    for line in text.partition("[Service]")[2].splitlines():
        if match := _KEY.fullmatch(line):
            key = match["key"]
        elif key and (match := _COMMAND.fullmatch(line)):
            settings.setdefault(key, []).append(_unquote(match["command"]))
    return settings


def _quote(command: str) -> str:
    """Quote a command for systemd: backslashes and quotes, its specifiers (%) and variables ($)."""
    return command.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")


def _unquote(text: str) -> str:
    return _QUOTED.sub(lambda match: match[0][1], text)


def _escape(name: str) -> str:
    """Escape an interface's name as `systemd-escape` does, byte for byte."""
    return "".join(
        chr(byte) if chr(byte) in UNESCAPED and (at or byte != ord(".")) else f"\\x{byte:02x}"
        for at, byte in enumerate(name.encode())
    )


FOLDERS = {posixpath.dirname(path) for path in (UNIT, NETPLAN, IFUPDOWN)} | {NETWORKD}
"""Folders that exist wherever they are read."""

_DISABLE = RunStep(command=f"systemctl disable --quiet {NAME}", only_if=f"systemctl is-enabled --quiet {NAME}")


def persistence_of(node: NodeView, changes: Sequence[PlannedFix]) -> Iterator[PlannedFix]:
    """Yield the changes that write the files which make other changes survive a reboot, and enable them."""
    boot = node.try_read(boot_config.PROBE)
    if boot is None or not boot.systemd:
        return
    network = [change for change in changes if change.fix.persistence is Persistence.NETWORK]
    files = network_files(boot, _persistence_settings(node, network))
    for path, content in files.items():
        if content != boot.files.get(path):
            yield _file(node.name, path, boot.files.get(path, ""), content, after=_validate(path))
    kernel = [change for change in changes if change.fix.persistence is Persistence.BOOT]
    yield from _unit(node.name, boot, [*kernel, *(network if not files else ())])


def _persistence_settings(node: NodeView, changes: Iterable[PlannedFix]) -> dict[str, PortSettings]:
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
