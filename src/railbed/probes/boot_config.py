"""How settings of the machine survive a reboot: its service manager, what configures its network, railbed's files.

Only the names of other people's files are read, and of netplan only the Ethernet part: the rest may contain passwords.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

UNIT = "/etc/systemd/system/railbed.service"
NETPLAN = "/etc/netplan/90-railbed.yaml"
IFUPDOWN = "/etc/network/interfaces.d/railbed"
NETWORKD = "/etc/systemd/network"
COMMAND = r"""
if [ -d /run/systemd/system ]; then
  echo '==> systemd <=='; systemctl is-active systemd-networkd
  echo '==> unit <=='; systemctl is-enabled railbed.service 2>/dev/null
  if command -v netplan >/dev/null && ls /etc/netplan/*.yaml >/dev/null 2>&1; then
    echo '==> netplan <=='; netplan get ethernets
  fi
  if command -v ifup >/dev/null && [ -f /etc/network/interfaces ]; then
    echo '==> ifupdown <=='; grep -E '^[[:space:]]*source' /etc/network/interfaces
  fi
fi
for netdev in {netdevs}; do
  index=$(cat "/sys/class/net/$netdev/ifindex" 2>/dev/null) || continue
  file=$(sed -n 's/^NETWORK_FILE=//p' "/run/systemd/netif/links/$index" 2>/dev/null)
  [ -z "$file" ] || printf '==> networkd %s <==\n%s\n' "$netdev" "$file"
done
for file in {files}; do
  [ ! -f "$file" ] || {{ printf '==> file %s <==\n' "$file"; cat "$file"; }}
done
echo '==> end <=='
"""


STATE = re.compile(r"[a-z-]+")
PATH = re.compile(r"/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootConfig(TextFacts):
    """What determines the machine's configuration at boot."""

    systemd: bool
    """The machine was started by systemd."""
    manager: str = ""
    """What configures the network at boot: `netplan`, `networkd`, `ifupdown`; empty if none of these does."""
    netplan_ids: dict[str, str] = field(default_factory=dict)
    """netplan's name of an interface, if it differs."""
    network_files: dict[str, str] = field(default_factory=dict)
    """By interface, the file of systemd-networkd that applies to it."""
    files: dict[str, str] = field(default_factory=dict)
    """railbed's own files."""
    unit_enabled: bool | None = None
    """Whether systemd starts railbed's unit at boot; None if that was not read."""


def _command(cluster: Cluster, device: str) -> str:
    netdevs = [port.netdev for port in cluster.nodes[device].ports]
    files = [shlex.quote(path) for path in (UNIT, NETPLAN, IFUPDOWN)]
    patterns = [f"{NETWORKD}/*railbed*", f"{NETWORKD}/*.network.d/*railbed*"]
    return COMMAND.format(netdevs=shlex.join(netdevs), files=" ".join([*files, *patterns]))


def parse(text: str) -> BootConfig:
    """Read the sections."""
    lines = Lines(text)
    sections = dict(lines.sections())
    parts = {name: part.text for name, part in sections.items()}
    for name in ("systemd", "unit"):
        state = sections[name].first(STATE) if name in sections else None
        if name in parts:
            parts[name] = state.group() if state else ""
    lines.require("end" in parts, "the output is not complete")
    by_kind: dict[str, dict[str, str]] = {"networkd": {}, "file": {}}
    for name, body in sections.items():
        kind, _, rest = name.partition(" ")
        if kind == "networkd" and (path := body.first(PATH)):
            by_kind[kind][rest] = path.group()
        elif rest and kind == "file":
            by_kind[kind][rest] = f"{body.text}\n"
    return BootConfig(
        systemd="systemd" in parts,
        manager=_manager(parts),
        netplan_ids=_netplan_ids(parts.get("netplan", ""), by_kind["networkd"]),
        network_files=by_kind["networkd"],
        files=by_kind["file"],
        unit_enabled=parts["unit"].strip() == "enabled" if "unit" in parts else None,
        not_understood=lines.not_understood,
    )


def _manager(parts: dict[str, str]) -> str:
    if "netplan" in parts:
        return "netplan"
    if parts.get("systemd", "").strip() == "active":
        return "networkd"
    # Without such a line, Debian's tools never read the file that railbed would write.
    return "ifupdown" if "/etc/network/interfaces.d" in parts.get("ifupdown", "") else ""


def _netplan_ids(text: str, network_files: Mapping[str, str]) -> dict[str, str]:
    """Return netplan's names by interface, from the `set-name` or `match` below them.

    Which interface has an address of a `match` is in the name of the file that netplan made for systemd-networkd.
    """
    names: dict[str, str] = {}
    with_mac: set[str] = set()
    current, depth = "", None
    for line in text.splitlines():
        key, _, value = line.strip().partition(":")
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        if indent == depth:
            current = key.strip("\"'")
        elif key in ("set-name", "name") and value.strip():
            names[value.strip().strip("\"'")] = current
        elif key == "macaddress":
            with_mac.add(current)
    for netdev, path in network_files.items():
        name = path.rpartition("/")[2].removeprefix("10-netplan-").removesuffix(".network")
        if name in with_mac and netdev not in names:
            names[netdev] = name
    return {netdev: name for netdev, name in names.items() if netdev != name}


PROBE = Probe(
    name="boot_config",
    title="what configures the machine at boot",
    command=_command,
    parse=parse,
    facts=BootConfig,
    needs_root=True,
)
