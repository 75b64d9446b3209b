"""Every rail interface has the MTU of its rail.

What
----
`ip link` shows, on every interface that is on a rail, the rail's `mtu`, or the policy's `host_mtu` if it has none; and
the next boot restores it. It is a warning if the MTU is right now, but stored nowhere, or if another is stored. On
IPoIB, which has 2044, 4092 or 65520 bytes by its mode and the subnet manager, all interfaces of the rail need the same
MTU, unless the rail sets one.

Why
---
RDMA picks its packet size from the interface: below about 4200 bytes it falls to 1024-byte packets, four times as many
per gradient bucket. If two ends differ, packets that are too long are dropped, and training hangs although small pings
work.

Fix
---
Set the MTU of the interface (`ip link set dev IF mtu 9000`) and keep it in netplan or the network configuration, so
that it survives a reboot. If the whole rail has another MTU than the cluster file, the file is the likelier mistake:
a rail has its own `mtu`. Before a whole rail is raised, every switch port on it must pass packets of that size.

Source
------
Linux kernel documentation, mlx5 counters (`rx_oversize_pkts_phy`: the peer's MTU is larger) and IP over InfiniBand (MTU
of datagram and connected mode); perftest's `-m` option.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_network import mtu_after_boot
from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import common_value, write_at_rail
from railbed.model.fix import Fix, set_mtu
from railbed.probes import ip_link
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the interface's MTU with its rail's."""
    netdev, wanted = port.port.netdev, port.mtu
    link = port.read(ip_link.PROBE).links.get(netdev)
    expected = f"MTU {wanted}"
    if link is None:
        yield fail(
            expected=expected,
            observed=f"no interface {netdev}",
            remedy=f"correct `netdev: {netdev}` in the cluster file",
        )
    elif card_of(port).infiniband_link and port.rail.mtu is None:
        yield _judge_ipoib(port, link.mtu)
    elif link.mtu != wanted:
        fix = _fix(port, link.mtu)
        remedy = "" if fix else _edit(port, link.mtu)
        yield fail(expected=expected, observed=f"MTU {link.mtu}", fix=fix, remedy=remedy)
    else:
        right = ok(expected=expected, observed=f"MTU {link.mtu}")
        fix = set_mtu(port.node.name, [(netdev, link.mtu, wanted)])
        yield survives(right, mtu_after_boot(port, RULE.name, fix), fix)


def _judge_ipoib(port: PortView, mtu: int | None) -> Judgement:
    """Compare the interface with the others of its rail: the policy is about Ethernet."""
    expected, others = "the MTU of the rail's other interfaces", port.on_rail(_mtu)
    usual = max(others, key=lambda value: (others[value], value == mtu))
    if mtu == usual or usual is None:
        return ok(expected=expected, observed=f"MTU {mtu} (IPoIB)")
    remedy = f"set the same mode and MTU on all of them, and {write_at_rail(port, 'mtu', usual)}"
    return warn(expected=expected, observed=f"MTU {mtu}; {usual} on {others[usual]} of the rail", remedy=remedy)


def _fix(port: PortView, mtu: int) -> Fix | None:
    """Set the interface, unless that would lower a working MTU: then the cluster file is the likelier mistake."""
    netdev, rail, wanted = port.port.netdev, port.port.rail, port.mtu
    counts = port.on_rail(_mtu)
    is_odd_one_out = counts.get(wanted, 0) == sum(counts.values()) - 1 > 0
    if mtu > wanted and not is_odd_one_out:
        return None
    is_whole_rail = mtu < wanted and common_value(port, _mtu) == mtu
    condition = f"once every switch port on {rail} passes {wanted} bytes" if is_whole_rail else ""
    return set_mtu(port.node.name, [(netdev, mtu, wanted)], condition=condition)


def _edit(port: PortView, mtu: int) -> str:
    reason = "all ports have it" if common_value(port, _mtu) == mtu else "if the whole rail is meant to have it"
    return f"{write_at_rail(port, 'mtu', mtu)}: {reason}"


def _mtu(port: PortView) -> int | None:
    links = port.node.try_read(ip_link.PROBE)
    link = links.links.get(port.port.netdev) if links else None
    return link.mtu if link else None


RULE = Rule(
    name="mtu",
    title="MTU as in the cluster file",
    scope="port",
    needs=(ip_link.PROBE, *BOOT_PROBES, *CARD_PROBES),
    judge=judge,
    doc=__doc__,
    rank=90,
    at_restart=True,
)
