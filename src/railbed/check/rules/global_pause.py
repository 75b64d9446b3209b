"""Global pause (802.3x) is off where the policy uses priority flow control.

What
----
`ethtool -a` shows rx and tx pause off on every rail interface. Skipped where the policy has no PFC.

Why
---
Global pause stops a whole link, not one priority: heartbeats, checkpoints and the congestion notifications themselves
stand still together with the RDMA traffic. A port answers to one of the two kinds only, so with global pause on, PFC
may be configured everywhere and still do nothing; gradients are then lost or everything stalls at once.

Fix
---
`ethtool -A IF autoneg off rx off tx off`, and no `flowcontrol` on the switch port. On ConnectX-3 (mlx4) setting PFC
turns global pause off by itself, and clearing PFC turns it on again: there, `dcb pfc set dev IF prio-pfc 3:on`.

Source
------
Linux kernel, mlx4 driver (`rx_pause = !pfc_en`); IEEE 802.3 annex 31B and 802.1Qbb.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, fail, ok, skip
from railbed.check.shared.wording import no_interface
from railbed.check.site import PortView
from railbed.probes import ethtool_driver, ethtool_pause

EXPECTED = "rx off, tx off"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at both directions."""
    netdev = port.port.netdev
    if not port.policy.pfc:
        yield skip("the policy does not use PFC")
        return
    pause = port.read(ethtool_pause.PROBE).interfaces.get(netdev)
    if pause is None:
        yield no_interface(netdev)
    elif pause.rx is None or pause.tx is None:
        yield skip("the interface has no global pause", expected=EXPECTED)
    elif pause.rx or pause.tx:
        observed = f"rx {'on' if pause.rx else 'off'}, tx {'on' if pause.tx else 'off'}"
        yield fail(expected=EXPECTED, observed=observed, remedy=_remedy(port))
    else:
        yield ok(expected=EXPECTED, observed="rx off, tx off")


def _remedy(port: PortView) -> str:
    netdev = port.port.netdev
    drivers = port.node.try_read(ethtool_driver.PROBE)
    driver = drivers.interfaces.get(netdev) if drivers else None
    if driver and driver.driver and driver.driver.startswith("mlx4"):
        return f"dcb pfc set dev {netdev} prio-pfc {port.policy.priority}:on (turns global pause off on this card)"
    return f"ethtool -A {netdev} autoneg off rx off tx off"


CHECK = Check(
    name="global_pause",
    title="global pause off",
    scope="port",
    needs=(ethtool_pause.PROBE, ethtool_driver.PROBE),
    judge=judge,
    doc=__doc__,
)
