"""Every rail interface exists, is up and has a link.

What
----
`ip link` shows the interface of the cluster file, switched on (`UP`) and with a partner on the cable (`LOWER_UP`).
It is a warning if nothing switches it on at the next boot.

Why
---
One dead port stops the whole job: a collective waits for its slowest rank, so ranks that lost a rail hang until the
time-out, or NCCL falls back to another, slower interface without reporting it.

Fix
---
Switch the interface on (`ip link set dev IF up`). If it is up without a carrier, look at the cable, the transceiver
and the switch port (`show interface status`), and compare FEC and speed at both ends.

Source
------
Linux kernel documentation, operational states of network interfaces (`operstates`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_network import up_after_boot
from railbed.model.cabling import far_end
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.present.changed import NO_LINK
from railbed.probes import ip_link
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the flags of the interface."""
    netdev, expected = port.port.netdev, "up, with a link"
    name = shlex.quote(netdev)
    links = port.read(ip_link.PROBE).links
    link = links.get(netdev)
    if link is None:
        yield fail(
            expected=expected,
            observed=f"no interface {netdev}",
            remedy=f"correct `netdev: {netdev}` in the cluster file, or load the card's driver",
            evidence=f"interfaces: {', '.join(links)}",
        )
    elif "UP" not in link.flags:
        yield fail(expected=expected, observed="switched off", fix=_fix(port))
    elif not link.has_carrier:
        yield fail(
            expected=expected,
            observed=f"{NO_LINK} ({link.state})",
            remedy=f"check cable, transceiver and switch port of {netdev}: `ethtool {name}`, `ethtool -m {name}`",
        )
    else:
        right, fix = ok(expected=expected, observed="up, with a link"), _fix(port)
        yield survives(right, up_after_boot(port, RULE.name, fix), fix)


def _fix(port: PortView) -> Fix:
    command = f"ip link set dev {shlex.quote(port.port.netdev)}"
    return Fix(
        device=port.node.name,
        apply=as_steps(f"{command} up"),
        undo=as_steps(f"{command} down"),
        persistence=Persistence.NETWORK,
    )


def _by_hand(port: PortView) -> Iterator[HandStep]:
    """A cable that the file has is a step of `cabling`."""
    if not far_end(port.node.site.cluster, port.node.name, port.port):
        yield HandStep(port.subject, f"plug in its cable to {port.port.rail}; the link light comes on")


RULE = Rule(
    name="link_up",
    title="rail interfaces are up",
    scope="port",
    stage="cabling",
    needs=(ip_link.PROBE, *BOOT_PROBES),
    judge=judge,
    by_hand=_by_hand,
    doc=__doc__,
    rank=80,
    essential=True,
    at_restart=True,
)
