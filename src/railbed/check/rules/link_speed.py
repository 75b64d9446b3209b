"""Every rail link runs at the speed in the cluster file, full duplex.

What
----
`ethtool` shows the rail's `speed` from the cluster file on every interface, and full duplex.

Why
---
A ring all-reduce runs at the speed of its slowest link: one port that trained at 25 instead of 100 Gb/s makes every
rank four times slower in communication, and no error is ever shown. Half duplex is worse still.

Fix
---
Look for a cable or transceiver of the wrong kind, an unintended breakout, or a speed fixed at one end only. Copper
cables from 25 Gb/s on negotiate and train their link: `ethtool -s IF autoneg on`, and the same at the switch. Optics
and active optical cables do not negotiate: `ethtool -s IF speed N autoneg off` on the node, `speed N` on the switch
port, and the same FEC at both ends (`ethtool --show-fec IF`, `ethtool --set-fec IF encoding rs`), without which the
link stays down.

Source
------
ethtool(8); IEEE 802.3, clauses 73 and 110 (25GBASE-CR negotiates). The cost of one slow link follows from the ring
all-reduce: each link carries 2(n-1)/n of the data.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.check.shared.port import common_value, no_interface, write_at_rail
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import ethtool, ethtool_driver, ip_link
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

COPPER, OPTICS = "Direct Attach Copper", "FIBRE"
NEGOTIATED_FROM_GBPS = 25
VIRTUAL_DRIVERS = ("virtio_net", "veth", "vmxnet3", "hv_netvsc", "xen_netfront", "gve", "tun", "dummy")


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare speed and duplex with the rail."""
    netdev, wanted = port.port.netdev, port.rail.speed
    expected = f"{wanted:g} Gb/s, full duplex" if wanted else "full duplex"
    settings = port.read(ethtool.PROBE).interfaces.get(netdev)
    if settings is None:
        yield no_interface(netdev)
    elif settings.duplex == "Half":
        yield _half_duplex(port, settings, expected)
    elif wanted is None:
        yield skip("the rail has no `speed` in the cluster file: see rail_speed_equal")
    elif settings.speed_mbps is None:
        yield _without_speed(port, expected)
    else:
        yield _compare(port, wanted, settings, settings.speed_mbps / 1000, expected)


def _half_duplex(port: PortView, settings: ethtool.EthernetSettings, expected: str) -> Judgement:
    """Turn on negotiation; if it is on already, or the previous setting is unknown, give advice instead."""
    command = f"ethtool -s {shlex.quote(port.port.netdev)} autoneg"
    if settings.autoneg is not False or settings.speed_mbps is None:
        return fail(expected=expected, observed="half duplex", remedy=f"{command} on, at both ends")
    fix = Fix(
        device=port.node.name,
        apply=as_steps(f"{command} on"),
        undo=as_steps(f"{command} off speed {settings.speed_mbps} duplex half"),
        persistence=Persistence.NETWORK,
        interrupts=True,
    )
    return fail(expected=expected, observed="half duplex", fix=fix)


def _compare(
    port: PortView, wanted: float, settings: ethtool.EthernetSettings, speed: float, expected: str
) -> Judgement:
    observed = f"{speed:g} Gb/s"
    edit = f"if that is right, {write_at_rail(port, 'speed', f'{speed:g}')}"
    if speed < wanted:
        compare = f"compare the link modes of both ends: `ethtool {shlex.quote(port.port.netdev)}`"
        compare += _advise_medium(shlex.quote(port.port.netdev), wanted, settings)
        remedy = f"all ports run at this speed: {edit}; else {compare}" if common_value(port, _speed) else compare
        return fail(expected=expected, observed=observed, remedy=remedy)
    if speed > wanted:
        return warn(expected=expected, observed=observed, remedy=edit)
    return ok(expected=expected, observed=observed)


def _advise_medium(netdev: str, wanted: float, settings: ethtool.EthernetSettings) -> str:
    """Return how this medium gets its speed; empty if nothing is known about it, or it is set that way."""
    if settings.port == COPPER and settings.autoneg is False and wanted >= NEGOTIATED_FROM_GBPS:
        return f"; copper cables negotiate at {wanted:g} Gb/s: `ethtool -s {netdev} autoneg on`, and so at the switch"
    if settings.port == OPTICS:
        return (
            f"; optics do not negotiate: `ethtool -s {netdev} speed {wanted * 1000:.0f} autoneg off`, the same speed "
            f"at the switch, and the same FEC at both ends (`ethtool --show-fec {netdev}`)"
        )
    return ""


def _speed(port: PortView) -> int | None:
    facts = port.node.try_read(ethtool.PROBE)
    settings = facts.interfaces.get(port.port.netdev) if facts else None
    return settings.speed_mbps if settings else None


def _without_speed(port: PortView, expected: str) -> Judgement:
    """Explain why there is no speed: no link, a virtual card, or a driver that does not report it."""
    netdev = port.port.netdev
    links, drivers = port.node.try_read(ip_link.PROBE), port.node.try_read(ethtool_driver.PROBE)
    link = links.links.get(netdev) if links else None
    driver = drivers.interfaces.get(netdev) if drivers else None
    if link and not link.has_carrier:
        return skip("no link: see link_up", expected=expected)
    if driver and driver.driver in VIRTUAL_DRIVERS:
        return skip(f"a virtual card ({driver.driver}) has no speed", expected=expected)
    return unknown(expected=expected, observed="the driver does not report a speed")


RULE = Rule(
    name="link_speed",
    title="link speed as in the cluster file",
    scope="port",
    stage="cabling",
    needs=(ethtool.PROBE, ethtool_driver.PROBE, ip_link.PROBE),
    judge=judge,
    doc=__doc__,
)
