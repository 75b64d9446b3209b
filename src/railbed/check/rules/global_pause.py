"""Global pause (802.3x) is off where the policy uses priority flow control.

What
----
`ethtool -a` shows rx and tx pause off on every rail interface. Skipped where the policy has no PFC, or the card cannot
do it.

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
from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.qos import pfc_priorities
from railbed.check.shared.wording import no_interface
from railbed.check.site import PortView, Unread
from railbed.probes import dcb_pfc, ethtool_driver, ethtool_pause, mlnx_qos

EXPECTED = "rx off, tx off"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at both directions."""
    netdev = port.port.netdev
    if not port.policy.pfc:
        yield skip("the policy does not use PFC")
        return
    if port.port.rdma and (lacking := card_of(port).lacks(Ability.PFC)):
        yield skip(f"{lacking}; global pause is all that there is", expected=EXPECTED)
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
    change = f"ethtool -A {netdev} autoneg off rx off tx off"
    # Without either kind of pause a rail that works would begin to drop packets.
    return f"turn PFC on first (see pfc), then {change}" if _pfc_is_off(port) else change


def _pfc_is_off(port: PortView) -> bool:
    try:
        return pfc_priorities(port) == ()
    except Unread:
        return False


CHECK = Check(
    name="global_pause",
    title="global pause off",
    scope="port",
    needs=(ethtool_pause.PROBE, ethtool_driver.PROBE, dcb_pfc.PROBE, mlnx_qos.PROBE, *CARD_PROBES),
    judge=judge,
    doc=__doc__,
)
