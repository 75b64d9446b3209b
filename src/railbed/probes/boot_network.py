"""What the network services store for the interfaces of rails, which the next boot restores.

netplan is asked for its merged configuration, NetworkManager for its connections; the files of systemd-networkd and
ifupdown are read as they are. Lines that may have passwords are left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.netconfig.ifupdown import ifupdown_port
from railbed.parsing.netconfig.netplan import KINDS, netplan_port
from railbed.parsing.netconfig.networkd import link_file, networkd_port
from railbed.parsing.netconfig.networkmanager import FIELDS, networkmanager_port
from railbed.parsing.netconfig.stored import PortIdentity, StoredPort

SERVICES = {"systemd-networkd": "networkd", "NetworkManager": "NetworkManager", "networking": "ifupdown"}
"""Services whose configuration is understood, by their unit."""
UNREAD = ("wicked", "wickedd", "connman", "dhcpcd", "network", "nm-cloud-setup", "netctl", "openvswitch-switch")
"""Services that also configure networks, in a way that is not read."""
AGENTS = (
    *("puppet", "salt-minion", "chef-client", "cfengine3", "rudder-agent"),
    *("google-guest-agent", "walinuxagent", "waagent", "amazon-ec2-net-utils", "nic-configuration-daemon"),
)
"""Services that configure machines from somewhere else."""
UNREAD_PARTS = {"netplan-failed": "netplan", "too-large": "large files"}
"""What the command prints instead of a configuration that it cannot show."""
DRIVERS_OF_1500 = (
    *("mlx5_core", "mlx4_core", "mlx4_en", "ice", "i40e", "ixgbe", "igb", "igc", "e1000", "e1000e", "bnxt_en"),
    *("qede", "cxgb4", "sfc", "hns3", "tg3", "r8169", "atlantic", "vmxnet3", "virtio_net"),
)
"""Drivers whose interfaces start with an MTU of 1500."""
MAX_FILE, MAX_FILES, MAX_CONNECTIONS = 65_536, 200, 64
LLDPAD = "lldpad"
UNITS = "|".join((*SERVICES, *UNREAD, *AGENTS, LLDPAD))
COMMAND = rf"""
[ -d /run/systemd/system ] && [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/1/ns/net)" ] ||
  {{{{ echo '==> end <=='; exit 0; }}}}
echo '==> services <=='
systemctl list-units --type=service --state=active --plain --no-legend --no-pager |
  sed -nE 's/^({UNITS})[.]service .*/\1/p'
if command -v netplan >/dev/null && ls /etc/netplan/*.yaml /run/netplan/*.yaml /lib/netplan/*.yaml >/dev/null 2>&1
then
  if text=$(netplan get 2>/dev/null); then
    printf '==> netplan <==\n'
    printf '%s\n' "$text" | awk '/^  [a-z]/ {{{{ keep = /^  ({"|".join(KINDS)}):/ }}}}
      (keep || !/^ /) && !/password|secret|private/'
  else echo '==> netplan-failed <=='
  fi
  if grep -lqi cloud-init /etc/netplan/*.yaml 2>/dev/null; then echo '==> cloud-init <=='; fi
fi
set --
for file in /etc/network/interfaces /etc/network/interfaces.d/* \
  /etc/systemd/network/*.network /run/systemd/network/*.network /usr/local/lib/systemd/network/*.network \
  /usr/lib/systemd/network/*.network \
  /etc/systemd/network/*.network.d/*.conf /run/systemd/network/*.network.d/*.conf \
  /usr/local/lib/systemd/network/*.network.d/*.conf /usr/lib/systemd/network/*.network.d/*.conf
do
  [ -f "$file" ] && set -- "$@" "$file"
done
for netdev in {{netdevs}}; do
  read -r index 2>/dev/null <"/sys/class/net/$netdev/ifindex" || continue
  link=$(sed -n 's/^E:ID_NET_LINK_FILE=//p' "/run/udev/data/n$index" 2>/dev/null)
  drop_ins="systemd/network/${{{{link##*/}}}}.d"
  for file in "$link" "/etc/$drop_ins"/*.conf "/run/$drop_ins"/*.conf "/usr/local/lib/$drop_ins"/*.conf \
    "/usr/lib/$drop_ins"/*.conf
  do
    [ -f "$file" ] && set -- "$@" "$file"
  done
done
if [ $# -gt {MAX_FILES} ] || [ -n "$(find -L "$@" /dev/null -maxdepth 0 -size +{MAX_FILE}c)" ]; then
  echo '==> too-large <=='
else
  # Once each: ports may share a file.
  LC_ALL=C awk 'BEGIN {{{{ for (i = 1; i < ARGC; i++) if (ARGV[i] in known) ARGV[i] = ""; else known[ARGV[i]] }}}}
    FNR == 1 {{{{ printf "==> file %s <==\n", FILENAME; shown[FILENAME] }}}}
    {{{{ line = tolower($0) }}}} line !~ /^[ \t]*([#;]|$)|psk|passw|secret|wpa-|private|wireless-key/
    END {{{{ for (file in known) if (!(file in shown) && file != "/dev/null") printf "==> file %s <==\n", file }}}}
  ' "$@" /dev/null
fi
if command -v nmcli >/dev/null && systemctl is-active --quiet NetworkManager; then
  echo '==> nm-devices <=='; nmcli -t -f DEVICE,STATE,CON-UUID device status
  nmcli -t -f UUID,FILENAME connection show | head -n {MAX_CONNECTIONS} | while IFS=: read -r uuid file; do
    printf '==> nm %s <==\nfilename:%s\n' "$uuid" "$file"
    nmcli -t -f {",".join(FIELDS)} connection show uuid "$uuid" </dev/null
    # Older versions know no such setting, and would refuse all of the others with it.
    nmcli -t -f ethtool connection show uuid "$uuid" </dev/null 2>/dev/null
  done
fi
for netdev in {{netdevs}}; do
  cd "/sys/class/net/$netdev" 2>/dev/null || continue
  printf '==> port %s <==\n' "$netdev"
  mac=; read -r mac <address; type=; read -r type <type; index=; read -r index <ifindex
  features=; read -r features 2>/dev/null <device/features
  driver=$(readlink device/driver)
  printf 'mac %s\ntype %s\ndriver %s\nfeatures %s\n' "$mac" "$type" "${{{{driver##*/}}}}" "$features"
  echo "dcbx $(dcb dcbx show dev "$netdev" 2>/dev/null)"
  sed -n 's/^NETWORK_FILE=/file /p; s/^E:ID_NET_LINK_FILE=/link /p' \
    "/run/systemd/netif/links/$index" "/run/udev/data/n$index" 2>/dev/null
done
echo '==> end <=='
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootPort:
    """What the next boot sets on an interface."""

    stored: tuple[StoredPort, ...] = ()
    """What each service that is responsible for it stores; none if no service is."""
    link_file: StoredPort | None = None
    """What the file that systemd-udevd applies to it stores."""
    driver: str = ""
    starts_at: int | None = None
    """The MTU that the driver gives it; None if that is not known."""
    dcbx_by_host: bool | None = None
    """Whether the settings of DCB are the machine's, not those that the card takes from the switch; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootNetwork(TextFacts):
    """What the network services store."""

    services: tuple[str, ...]
    """Those at work, `netplan` first; none if the machine was not started by systemd, or is a network namespace."""
    unread: tuple[str, ...] = ()
    """Other services that configure networks, or netplan if it could not be asked."""
    agents: tuple[str, ...] = ()
    """Services that configure the machine from somewhere else, such as `puppet`."""
    lldpad: bool = False
    """lldpad is at work, which takes DCB settings from the switch or from its own file."""
    cloud_init: bool = False
    """cloud-init wrote a part of netplan's configuration."""
    ports: dict[str, BootPort] = field(default_factory=dict)


def _command(cluster: Cluster, device: str) -> str:
    return COMMAND.format(netdevs=shlex.join(port.netdev for port in cluster.nodes[device].ports))


def parse(text: str) -> BootNetwork:
    """Read the sections."""
    lines = Lines(text)
    parts = {name: part.text for name, part in lines.sections()}
    lines.require("end" in parts, "the output is not complete")
    units = parts.get("services", "").split()
    services = [SERVICES[unit] for unit in SERVICES if unit in units]
    named = _find_named(parts)
    ports = {netdev: _values(body) for netdev, body in named["port"].items()}
    return BootNetwork(
        services=("netplan", *services) if "netplan" in parts else tuple(services),
        unread=(
            *(unit for unit in UNREAD if unit in units),
            *(what for part, what in UNREAD_PARTS.items() if part in parts),
        ),
        agents=tuple(unit for unit in AGENTS if unit in units),
        lldpad=LLDPAD in units,
        cloud_init="cloud-init" in parts,
        ports={
            netdev: BootPort(
                stored=tuple(_list_stored(parts, named, services, _identity(netdev, values))),
                link_file=link_file(named["file"], values.get("link", "")),
                driver=values.get("driver", ""),
                starts_at=_starts_at(values),
                dcbx_by_host=_dcbx_by_host(values.get("dcbx", "").split()),
            )
            for netdev, values in ports.items()
        },
        not_understood=lines.not_understood,
    )


def _find_named(parts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the sections with a kind and a name: files, connections, interfaces."""
    named: dict[str, dict[str, str]] = {"file": {}, "nm": {}, "port": {}}
    for title, body in parts.items():
        kind, _, name = title.partition(" ")
        if name and kind in named:
            named[kind][name] = body
    return named


def _values(body: str) -> dict[str, str]:
    return {key: value.strip() for key, _, value in (line.partition(" ") for line in body.splitlines())}


def _identity(netdev: str, values: Mapping[str, str]) -> PortIdentity:
    return PortIdentity(
        netdev=netdev,
        mac=values.get("mac", ""),
        driver=values.get("driver", ""),
        network_file=values.get("file", ""),
    )


def _list_stored(
    parts: Mapping[str, str], named: Mapping[str, Mapping[str, str]], services: list[str], port: PortIdentity
) -> Iterator[StoredPort]:
    """Yield what each service stores for an interface."""
    generated = "10-netplan-"
    files = {path: body for path, body in named["file"].items() if not path.rpartition("/")[2].startswith(generated)}
    answers = []
    if "netplan" in parts:
        answers.append(netplan_port(parts["netplan"], port))
    if "networkd" in services:
        answers.append(networkd_port(files, port))
    if "NetworkManager" in services:
        answers.append(networkmanager_port(parts.get("nm-devices", ""), named["nm"], port))
    if "ifupdown" in services:
        answers.append(ifupdown_port(files, port))
    yield from (answer for answer in answers if answer is not None)


def _dcbx_by_host(flags: Collection[str]) -> bool | None:
    return "host" in flags and "lld-managed" not in flags if flags else None


def _starts_at(values: Mapping[str, str]) -> int | None:
    """Return the MTU of an Ethernet interface before anything sets it; a hypervisor may give virtio another."""
    given_by_host = values.get("driver") == "virtio_net" and values.get("features", "")[3:4] != "0"
    known = values.get("type") == "1" and values.get("driver") in DRIVERS_OF_1500
    return 1500 if known and not given_by_host else None


PROBE = Probe(
    name="boot_network",
    title="what the network services will set at boot",
    command=_command,
    parse=parse,
    facts=BootNetwork,
    needs_root=True,
)
