"""Global pause (802.3x) is off if the policy uses priority flow control.

What
----
`ethtool -a` shows rx and tx pause off on every rail interface, and the next boot restores it: it is a warning if the
driver starts with it on, or a configuration turns it on, and nothing turns it off at boot. Skipped if the policy has no
PFC, or the card does not support it.

Why
---
Global pause stops a whole link, not one priority: heartbeats, checkpoints and the congestion notifications themselves
stop together with the RDMA traffic. A port obeys only one of the two kinds, so with global pause on, PFC
may be configured everywhere and still do nothing; gradients are then lost or everything stalls at once.

Fix
---
`ethtool -A IF autoneg off rx off tx off`, and no `flowcontrol` on the switch port. On ConnectX-3 (mlx4) setting PFC
turns global pause off, and clearing PFC turns it on again: use `dcb pfc set dev IF prio-pfc 3:on` there.

Source
------
Linux kernel, mlx4 driver (`rx_pause = !pfc_en`); IEEE 802.3 annex 31B and 802.1Qbb.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import pause_after_boot
from railbed.check.shared.card import CARD_PROBES, Ability, card_of
from railbed.check.shared.port import no_interface
from railbed.check.shared.qos import pfc_priorities, set_pfc
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import dcb_pfc, ethtool_driver, ethtool_pause, ip_link, mlnx_qos
from railbed.probes.ethtool_pause import PauseSettings
from railbed.rules.judgement import Judgement, fail, ok, skip
from railbed.rules.rule import Rule, Unread
from railbed.rules.site import PortView

EXPECTED = "rx off, tx off"
MLX4 = "on this card PFC turns global pause off"


V1 = (
    "leave it on, and write `pfc: false` into `policy:` of the cluster file: RoCE v1 without a VLAN has no priority "
    "that PFC could hold back; or put the rail on a VLAN"
)


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at both directions."""
    netdev = port.port.netdev
    if port.port.rdma and (lacking := card_of(port).lacks(Ability.PFC)):
        yield skip(f"{lacking}; only global pause is available", expected=EXPECTED)
        return
    pause = port.read(ethtool_pause.PROBE).interfaces.get(netdev)
    if pause is None:
        yield no_interface(netdev)
    elif pause.rx is None or pause.tx is None:
        yield skip("the interface has no global pause", expected=EXPECTED)
    elif pause.rx or pause.tx:
        observed = f"rx {'on' if pause.rx else 'off'}, tx {'on' if pause.tx else 'off'}"
        yield _pausing(port, pause, observed)
    else:
        yield _not_pausing(port, pause)


def _not_pausing(port: PortView, pause: PauseSettings) -> Judgement:
    right = ok(expected=EXPECTED, observed="rx off, tx off")
    if _is_mlx4(port):
        # It follows PFC, whose rule judges the next boot.
        return right
    fix = _turn_off(port, pause, after=())
    return survives(right, pause_after_boot(port, RULE.name, fix, is_on=False), fix)


def _is_mlx4(port: PortView) -> bool:
    drivers = port.node.try_read(ethtool_driver.PROBE)
    driver = drivers.interfaces.get(port.port.netdev) if drivers else None
    return driver is not None and (driver.driver or "").startswith("mlx4")


def _pausing(port: PortView, pause: PauseSettings, observed: str) -> Judgement:
    if card_of(port).roce_v1 and not _is_vlan(port):
        return fail(expected=EXPECTED, observed=observed, remedy=V1)
    enabled = _pfc_enabled(port)
    if not _is_mlx4(port):
        # Without either kind of pause, a working rail would begin to drop packets.
        fix = _turn_off(port, pause, after=("pfc",) if enabled == () else ())
        return fail(expected=EXPECTED, observed=observed, fix=fix)
    if enabled is None or port.policy.priority in enabled:
        remedy = f"turn PFC on for priority {port.policy.priority} (see pfc): {MLX4}"
        return fail(expected=EXPECTED, observed=observed, remedy=remedy)
    fix = replace(set_pfc(port, enabled, (*enabled, port.policy.priority)), note=MLX4)
    return fail(expected=EXPECTED, observed=observed, fix=fix)


def _turn_off(port: PortView, pause: PauseSettings, *, after: tuple[str, ...]) -> Fix:
    command = f"ethtool -A {shlex.quote(port.port.netdev)}"
    earlier = {"autoneg": pause.autoneg, "rx": pause.rx, "tx": pause.tx}
    settings = " ".join(f"{name} {'on' if on else 'off'}" for name, on in earlier.items() if on is not None)
    return Fix(
        device=port.node.name,
        apply=as_steps(f"{command} autoneg off rx off tx off"),
        undo=as_steps(f"{command} {settings}"),
        persistence=Persistence.BOOT,
        interrupts=True,
        after=after,
    )


def _is_vlan(port: PortView) -> bool:
    links = port.node.try_read(ip_link.PROBE)
    link = links.links.get(port.port.netdev) if links else None
    return link is not None and link.kind == "vlan"


def _pfc_enabled(port: PortView) -> tuple[int, ...] | None:
    """Return the priorities with PFC on; None if no source has them."""
    try:
        priorities = pfc_priorities(port)
    except Unread:
        return None
    return None if isinstance(priorities, str) else priorities


def _unless(port: PortView) -> str:
    return "" if port.policy.pfc else "the policy does not use PFC"


RULE = Rule(
    name="global_pause",
    title="global pause off",
    scope="port",
    needs=(
        ethtool_pause.PROBE,
        ip_link.PROBE,
        ethtool_driver.PROBE,
        dcb_pfc.PROBE,
        mlnx_qos.PROBE,
        *CARD_PROBES,
        *BOOT_PROBES,
    ),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    rank=170,
)
