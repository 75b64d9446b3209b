"""A node whose settings are right now, what its files restore at the next boot, and what configure would store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ruamel.yaml import YAML

from railbed.check.book import CHECK_BOOK
from railbed.configure.plan import Plan, make_plan
from railbed.model.cluster import Cluster
from railbed.model.fix import FileStep
from railbed.model.reading import DeviceFacts, Known, Output
from railbed.model.record import Finding, Verdict
from railbed.probes import boot_network, boot_scripts, dcb_app, dcb_pfc, ip_addr, ip_link, roce_tos
from railbed.probes.boot_config import BootConfig
from railbed.probes.outputs import all_probes
from railbed.rules.engine import judge
from railbed.rules.site import Site

CLUSTER = Cluster.model_validate(
    {
        "name": "c",
        "rails": {"r": {"subnet": "10.1.0.0/24", "mtu": 9000}},
        "nodes": {
            name: {
                "host": name,
                "ports": [{"netdev": "eth1", "rail": "r", "address": f"10.1.0.{number}", "rdma": "mlx5_0"}],
            }
            for number, name in enumerate(("a", "b"), 1)
        },
    }
)
NETWORK = ("mtu", "rail_address")
QOS = ("pfc", "dscp_map", "roce_tos")
ADDRESS = json.dumps([{"ifname": "eth1", "addr_info": [{"family": "inet", "local": "10.1.0.1", "prefixlen": 24}]}])
NOTHING_ELSE = "".join(f"==> {name} <==\n" for name in (*boot_scripts.PATTERNS, "end"))
PFC = "==> eth1 <==\nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n"
DSCP = "==> eth1 <==\ndscp-prio AF31:3\n"
TOS = "mlx5_0/ports/1/default_roce_tos:106\n"
LINK = "/etc/systemd/network/10-rail.link"
UNITS = {"netplan": "systemd-networkd", "networkd": "systemd-networkd", "ifupdown": "networking"}


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node whose settings are right now, and what its files will restore."""

    manager: str
    """As configure calls it; empty for NetworkManager."""
    files: Mapping[str, str] = field(default_factory=dict)
    mtu: int = 9000
    driver: str = "mlx5_core"
    agents: tuple[str, ...] = ()
    scripts: str = NOTHING_ELSE
    connection: Mapping[str, str] = field(default_factory=dict)
    unit_enabled: bool | None = None
    dcbx: str = "host ieee"
    units: tuple[str, ...] = ()
    rules: tuple[str, ...] = NETWORK
    facts: Mapping[str, str] = field(default_factory=dict)
    """What further probes read, by name."""
    link: str = ""
    """The lines of the .link file that applies."""

    def site(self) -> Site:
        """Return the cluster with the facts of this node."""
        link = {"ifname": "eth1", "mtu": self.mtu, "operstate": "UP", "flags": ["UP", "LOWER_UP"]}
        rails = {name: rail.model_copy(update={"mtu": self.mtu}) for name, rail in CLUSTER.rails.items()}
        readings = {
            "ip_link": ip_link.PROBE.parse(json.dumps([link])),
            "ip_addr": ip_addr.PROBE.parse(ADDRESS),
            "dcb_pfc": dcb_pfc.PROBE.parse(PFC),
            "dcb_app": dcb_app.PROBE.parse(DSCP),
            "roce_tos": roce_tos.PROBE.parse(TOS),
            "boot_network": boot_network.PROBE.parse(self._network()),
            "boot_scripts": boot_scripts.PROBE.parse(self.scripts),
            "boot_config": BootConfig(
                systemd=True,
                manager=self.manager,
                files={path: text for path, text in self.files.items() if "railbed" in path},
                network_files={"eth1": path} if (path := self._applied()) else {},
                unit_enabled=self.unit_enabled,
            ),
        }
        readings |= {name: all_probes()[name].parse(text) for name, text in self.facts.items()}
        output = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0, received=0)
        known = {name: (Known(facts=facts, output=output),) for name, facts in readings.items()}
        return Site(CLUSTER.model_copy(update={"rails": rails}), {"a": DeviceFacts(device="a", readings=known)})

    def findings(self) -> dict[str, Finding]:
        """Return the findings of its rules, by rule."""
        return {finding.check: finding for finding in self._judged()}

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts of its rules."""
        return {check: finding.verdict for check, finding in self.findings().items()}

    def plan(self) -> Plan:
        """Return what configure would do."""
        return make_plan(self.site(), self._judged(), only=(), named=())

    def _judged(self) -> list[Finding]:
        return list(judge(CHECK_BOOK, self.site(), [CHECK_BOOK.rules[name] for name in self.rules]))

    def configured(self) -> Node:
        """Return the node with the files that configure writes."""
        (device,) = self.plan().devices
        written = {step.path: step.content or "" for step in device.fix.apply if isinstance(step, FileStep)}
        assert written
        return replace(self, files={**self.files, **written})

    def _applied(self) -> str:
        """Return the file that networkd would report; the first fits in all of these cases."""
        return next((path for path in sorted(self.files) if path.endswith(".network")), "")

    def _network(self) -> str:
        service = UNITS.get(self.manager, "NetworkManager")
        lines = ["==> services <==", service, *self.agents, *self.units]
        if self.manager == "netplan":
            lines += ["==> netplan <==", self._netplan()]
        for path, text in self.files.items():
            lines += [f"==> file {path} <==", text] if "network/" in path else []
        if self.connection:
            lines += ["==> nm-devices <==", "eth1:connected:u-1", "==> nm u-1 <=="]
            lines += [f"{key}:{value}" for key, value in self.connection.items()]
        if self.link:
            lines += [f"==> file {LINK} <==", "[Link]", self.link]
        lines += ["==> port eth1 <==", "mac 0c:42:a1:00:00:01", "type 1", f"driver {self.driver}", "features 0000"]
        lines += [f"dcbx {self.dcbx}", f"link {LINK if self.link else ''}", f"file {self._applied()}"]
        return "\n".join([*lines, "==> end <==", ""])

    def _netplan(self) -> str:
        """Return what `netplan get` prints: mappings are merged, lists are joined."""
        merged: dict[str, Any] = {}
        for path, text in sorted(self.files.items()):
            if path.endswith(".yaml"):
                merge(merged, YAML(typ="safe").load(text))
        return json.dumps(merged)


def merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merge as netplan does: mappings are merged, lists are joined."""
    for key, value in other.items():
        if isinstance(value, Mapping):
            merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            into[key] = [*into.get(key, []), *value]
        else:
            into[key] = value


def netplan(text: str) -> dict[str, str]:
    """Return a netplan file with these interfaces."""
    return {"/etc/netplan/50-site.yaml": f"network: {{version: 2, ethernets: {{{text}}}}}\n"}


def interfaces(text: str = "") -> dict[str, str]:
    """Return the file of ifupdown with these lines."""
    return {"/etc/network/interfaces": f"auto lo\niface lo inet loopback\n{text}source /etc/network/interfaces.d/*\n"}


def networkd(text: str) -> dict[str, str]:
    """Return a file of systemd-networkd with these lines."""
    return {"/etc/systemd/network/20-rail.network": f"[Match]\nName=eth1\n{text}"}


CONNECTION = {
    "filename": "/etc/NetworkManager/system-connections/rail.nmconnection",
    "connection.id": "rail",
    "connection.type": "802-3-ethernet",
    "connection.interface-name": "eth1",
    "connection.autoconnect": "yes",
    "802-3-ethernet.mtu": "9000",
    "ipv4.method": "manual",
    "ipv4.addresses": "10.1.0.1/24",
}
