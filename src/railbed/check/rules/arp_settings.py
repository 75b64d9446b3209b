"""Ports of a node in one subnet answer for their own addresses only, and take packets from any of their peers.

What
----
If two ports of a node are in one subnet, `rp_filter` of each is 0 or 2, `arp_ignore` 1 or 2 and `arp_announce` 2. The
kernel uses the larger of the value for the interface and that for `all`. A node with one port in each subnet does not
need any of this, and is skipped.

Why
---
The kernel sends answers to a subnet through the first port in it. With `rp_filter` 1 it drops what arrives on the other
ports, without an error: connections of RDMA do not come up there, or only in one direction. And every port answers ARP
for the addresses of all, so that both rails' traffic arrives on one card.

Fix
---
`sysctl -w net.ipv4.conf.IF.rp_filter=2 net.ipv4.conf.IF.arp_ignore=1 net.ipv4.conf.IF.arp_announce=2` for each of these
ports, and the same lines in a file in /etc/sysctl.d. A subnet for each rail needs nothing of it (see rails_distinct).

Source
------
Linux kernel documentation, ip-sysctl (`rp_filter`, `arp_ignore`, `arp_announce`); rdma-core, librdmacm.md (several
interfaces in one subnet); IBM documentation, SMC-R (`rp_filter` 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_interface

from railbed.check.shared.port import some
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, write_value
from railbed.probes import ip_addr, net_sysctl
from railbed.probes.net_sysctl import ArpSettings, ArpSysctls, Setting
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "rp_filter 0 or 2, arp_ignore 1, arp_announce 2"
STRICT = 1
GOOD: dict[Setting, tuple[int, ...]] = {"rp_filter": (0, 2), "arp_ignore": (1, 2), "arp_announce": (2,)}
WANTED: dict[Setting, int] = {"rp_filter": 2, "arp_ignore": 1, "arp_announce": 2}
FILE = "/etc/sysctl.d/90-railbed-{netdev}.conf"
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,15}")
"""Names that stand for themselves in a file of sysctl."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the settings of a port that shares its subnet with another one."""
    if port.port.address.version != 4:
        yield skip("an IPv6 rail: neighbours are not resolved with ARP", expected=EXPECTED)
        return
    netdev = port.port.netdev
    facts = port.read(net_sysctl.PROBE)
    others = _in_same_subnet(port)
    if not others:
        yield skip("no other port of the node in its subnet", expected=EXPECTED)
    elif netdev not in facts.interfaces:
        yield skip(f"no interface {netdev}: see link_up", expected=EXPECTED)
    else:
        yield _judge_settings(port, facts, others)


def _judge_settings(port: PortView, facts: ArpSysctls, others: list[str]) -> Judgement:
    netdev = port.port.netdev
    values = {setting: facts.in_force(netdev, setting) for setting in GOOD}
    missing = [setting for setting, value in values.items() if value is None]
    wrong = [setting for setting, value in values.items() if value is not None and value not in GOOD[setting]]
    where = f"in one subnet with {some(others)}"
    if wrong:
        observed = f"{', '.join(f'{setting} {values[setting]}' for setting in wrong)}, {where}"
        fix = _fix(port, facts.interfaces[netdev], wrong)
        verdict = fail if values["rp_filter"] == STRICT else warn
        return verdict(observed, expected=EXPECTED, fix=fix, evidence=str(facts.interfaces.get("all", "")))
    if missing:
        return unknown(expected=EXPECTED, observed=f"the kernel does not show {', '.join(missing)}")
    observed = ", ".join(f"{setting} {value}" for setting, value in values.items())
    return ok(expected=EXPECTED, observed=f"{observed}, {where}")


def _fix(port: PortView, own: ArpSettings, wrong: list[Setting]) -> Fix | None:
    """Set the interface's own values: the larger of its own and that of all is used, so they win."""
    netdev = port.port.netdev
    before: dict[Setting, int | None] = {setting: getattr(own, setting) for setting in wrong}
    if not PLAIN.fullmatch(netdev) or None in before.values():
        return None
    folder = f"/proc/sys/net/ipv4/conf/{netdev}"
    lines = [f"net/ipv4/conf/{netdev}/{setting} = {WANTED[setting]}" for setting in WANTED]
    return Fix(
        device=port.node.name,
        apply=(
            *(RunStep(command=write_value(WANTED[setting], f"{folder}/{setting}")) for setting in wrong),
            FileStep(path=FILE.format(netdev=netdev), content="\n".join([*lines, ""])),
        ),
        undo=tuple(RunStep(command=write_value(before[setting], f"{folder}/{setting}")) for setting in wrong),
        persistence=Persistence.KEPT,
    )


def _in_same_subnet(port: PortView) -> list[str]:
    """Return the other rail ports of the node in the subnet of this one, as configured on the node or in the file."""
    own = _subnet(port)
    if own is None:
        return []
    others = (other for other in port.node.ports if other.port.netdev != port.port.netdev)
    return [other.port.netdev for other in others if (subnet := _subnet(other)) is not None and subnet.overlaps(own)]


def _subnet(port: PortView) -> IPv4Network | None:
    facts = port.node.try_read(ip_addr.PROBE)
    addresses = facts.interfaces.get(port.port.netdev) if facts else None
    for address in addresses or ():
        interface = ip_interface(f"{address.address}/{address.prefix}")
        if interface.ip == port.port.address and isinstance(interface.network, IPv4Network):
            return interface.network
    subnet: IPv4Network | IPv6Network | None = port.rail.subnet
    return subnet if isinstance(subnet, IPv4Network) else None


def _unless(port: PortView) -> str:
    return "" if len(port.node.node.ports) > 1 else "the node has one port"


RULE = Rule(
    name="arp_settings",
    title="ARP and reverse-path filter of ports in one subnet",
    scope="port",
    needs=(net_sysctl.PROBE, ip_addr.PROBE),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    rank=110,
)
