"""The MTU of every rail interface is the policy's.

What
----
`ip link` shows the policy's host MTU on every interface that is on a rail.

Why
---
RDMA picks its packet size from the interface: below about 4200 bytes it falls to 1024-byte packets, four times as many
per gradient bucket. Two ends that differ drop what is too long, and training hangs while small pings still work.

Fix
---
Set the MTU of the interface (`ip link set dev IF mtu 9000`) and keep it in netplan or the network configuration, so
that it survives a reboot.

Source
------
Linux kernel documentation, mlx5 counters (`rx_oversize_pkts_phy`: the peer's MTU is larger); perftest's `-m` option.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, fail, ok
from railbed.check.site import PortView
from railbed.probes import ip_link


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the interface's MTU with the policy."""
    netdev, wanted = port.port.netdev, port.policy.host_mtu
    link = port.read(ip_link.PROBE).links.get(netdev)
    expected = f"MTU {wanted}"
    if link is None:
        yield fail(
            expected=expected,
            observed=f"no interface {netdev}",
            remedy=f"correct `netdev: {netdev}` in the cluster file",
        )
    elif link.mtu != wanted:
        yield fail(expected=expected, observed=f"MTU {link.mtu}", remedy=f"ip link set dev {netdev} mtu {wanted}")
    else:
        yield ok(expected=expected, observed=f"MTU {link.mtu}")


CHECK = Check(name="mtu", title="MTU as in the policy", scope="port", needs=(ip_link.PROBE,), judge=judge, doc=__doc__)
