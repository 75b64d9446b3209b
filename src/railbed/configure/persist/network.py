"""Addresses and MTUs in the network configuration that a node reads at boot: netplan, systemd-networkd or ifupdown.

railbed's settings are in separate files beside other people's, with the values in a comment on the first line. A file
holds all settings that configure made; a later run adds to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from ipaddress import ip_interface

from railbed.probes.boot_config import IFUPDOWN, NETPLAN, NETWORKD, BootConfig

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
