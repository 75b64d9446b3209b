"""A rail with RoCE v1 is lossless by a VLAN's priority, or by global pause.

What
----
On a rail that uses RoCE v1, the port's interface is a VLAN, or `ethtool -a` shows global pause on in both directions,
which the next boot restores. Skipped on rails with RoCE v2.

Why
---
A RoCE v1 frame has no IP header, and so no DSCP: without the tag of a VLAN it has no priority either, and PFC cannot
hold it back. Then a full buffer drops frames, RoCE goes back to the first lost one, and an all-reduce that takes
milliseconds takes seconds, although every setting of PFC is right.

Fix
---
Write `pfc: false` into `policy:` of the cluster file, and turn global pause on: `ethtool -A IF rx on tx on`, and
`flowcontrol` in both directions on the switch port. Or put the rail on a VLAN, name its interface in the cluster file,
and set its priority: `ip link set dev IF type vlan egress-qos-map 0:3`.

Source
------
InfiniBand Architecture Specification, annex A16 (RoCE); IEEE 802.1Q (priority code point), 802.3 annex 31B (pause).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_card import pause_after_boot
from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import no_interface, no_rdma
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import ethtool_pause, infiniband, ip_link
from railbed.probes.ethtool_pause import PauseSettings
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "a VLAN, or global pause on"
NO_VLAN = "no VLAN, and global pause"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look for a VLAN, then for global pause."""
    port.read(infiniband.PROBE)
    card = card_of(port)
    if card.infiniband_link or not card.roce_v1:
        yield skip("InfiniBand link: no RoCE" if card.infiniband_link else "no RoCE v1 on this rail", expected=EXPECTED)
        return
    netdev = port.port.netdev
    link = port.read(ip_link.PROBE).links.get(netdev)
    if link is None:
        yield no_interface(netdev)
    elif link.kind == "vlan":
        yield ok(expected=EXPECTED, observed=f"a VLAN{f' on {link.parent}' if link.parent else ''}")
    else:
        yield _judge_pause(port, port.read(ethtool_pause.PROBE).interfaces.get(netdev, PauseSettings()))


def _judge_pause(port: PortView, pause: PauseSettings) -> Judgement:
    if pause.rx is None or pause.tx is None:
        return warn(expected=EXPECTED, observed=f"{NO_VLAN} is not available")
    if pause.rx and pause.tx:
        right, fix = ok(expected=EXPECTED, observed="global pause on"), _turn_on(port, pause)
        return survives(right, pause_after_boot(port, RULE.name, fix, is_on=True), fix)
    observed = f"{NO_VLAN} rx {'on' if pause.rx else 'off'}, tx {'on' if pause.tx else 'off'}"
    # PFC and global pause exclude each other: with PFC in the policy, a person decides for one of the two.
    return warn(expected=EXPECTED, observed=observed, fix=None if port.policy.pfc else _turn_on(port, pause))


def _turn_on(port: PortView, pause: PauseSettings) -> Fix:
    command = f"ethtool -A {shlex.quote(port.port.netdev)}"
    before = [f"{name} {'on' if on else 'off'}" for name, on in {"rx": pause.rx, "tx": pause.tx}.items()]
    return Fix(
        device=port.node.name,
        apply=as_steps(f"{command} rx on tx on"),
        undo=as_steps(" ".join([command, *before])),
        persistence=Persistence.BOOT,
        interrupts=True,
        note="a switch port needs `flowcontrol` in both directions, too",
    )


RULE = Rule(
    name="roce_v1_lossless",
    title="RoCE v1 is lossless by VLAN or global pause",
    scope="port",
    needs=(ip_link.PROBE, ethtool_pause.PROBE, *CARD_PROBES, *BOOT_PROBES),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
    rank=175,
)
