"""Every rail interface has its address from the cluster file, with the rail's prefix.

What
----
`ip addr` shows the address of the cluster file on its interface, with the prefix length of the rail's subnet, and on
no other interface of the node; and the next boot restores it. It is a warning if the address is right now, but stored
nowhere, or leased by DHCP, which may lease another one next time, or if another address is stored.

Why
---
RoCEv2 takes its GID from the IP address: without the address there is no GID and no RDMA on that port. An address on
the wrong port sends a rail's traffic through another rail, and connections of the collective work in one direction
only.

Fix
---
Set the address (`ip addr replace ADDRESS/PREFIX dev IF`) and keep it in netplan or the network configuration; if the
node is right and the file is not, correct `address:` in the cluster file.

Source
------
Linux kernel, RoCE GID table: one entry for each IP address of the network device under the RDMA device.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared.boot import BOOT_PROBES, survives
from railbed.check.shared.boot_network import address_after_boot
from railbed.check.shared.port import some
from railbed.model.fix import Fix, Persistence, RunStep, Step, as_steps
from railbed.probes import ip_addr
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import PortView

LEASED = "the DHCP client stays on: reserve the address in the DHCP server, or it may lease it to another machine"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look for the address, first on its interface, then on the rest of the node."""
    netdev, address, subnet = port.port.netdev, port.port.address, port.rail.subnet
    expected = f"{address}/{subnet.prefixlen}" if subnet else str(address)
    owners = port.read(ip_addr.PROBE).find(address)
    here = owners.get(netdev)
    elsewhere = [name for name in owners if name != netdev]
    if here is None:
        observed = f"{address} is on {some(elsewhere)}" if elsewhere else f"not on {netdev}"
        yield fail(expected=expected, observed=observed, fix=None if elsewhere else _fix(port, add=expected))
    elif elsewhere:
        yield fail(
            expected=expected,
            observed=f"also on {some(elsewhere)}",
            fix=_fix(port, remove=f"{address}/{owners[elsewhere[0]].prefix}", netdev=elsewhere[0]),
        )
    elif here.duplicate:
        yield fail(
            expected=expected,
            observed="another machine has the same address",
            remedy=f"give one of them another address; `ip neigh show {address}` on a peer shows whose MAC answers",
        )
    elif subnet and here.prefix != subnet.prefixlen:
        yield fail(
            expected=expected,
            observed=f"{address}/{here.prefix}",
            fix=_fix(port, add=expected, remove=f"{address}/{here.prefix}"),
        )
    else:
        right = ok(expected=expected, observed=f"{address}/{here.prefix}")
        fix = _fix(port, add=expected)
        later = address_after_boot(port, RULE.name, fix)
        yield survives(right, later, replace(fix, note=LEASED) if later.is_lease else fix)


def _fix(port: PortView, *, add: str = "", remove: str = "", netdev: str = "") -> Fix:
    """Add before removing, so that the interface is never without the address."""
    netdev = shlex.quote(netdev or port.port.netdev)

    def steps(new: str, old: str) -> tuple[Step, ...]:
        adding = as_steps(f"ip addr replace {new} dev {netdev}") if new else ()
        return adding + ((_removal(old, netdev),) if old else ())

    return Fix(
        device=port.node.name,
        apply=steps(add, remove),
        undo=steps(remove, add),
        persistence=Persistence.NETWORK,
        interrupts=bool(remove),
    )


def _removal(address: str, netdev: str) -> RunStep:
    """Return the step that removes an address from an interface, whose name is quoted already."""
    present = f"ip -o addr show dev {netdev} | grep -qwF {address}"
    return RunStep(command=f"ip addr del {address} dev {netdev}", only_if=present)


def _by_hand(port: PortView) -> Iterator[HandStep]:
    if port.rail.subnet:
        text = f"reserve {port.rail.subnet} for {port.port.rail}: no DHCP server and no other network uses it"
        yield HandStep(port.subject, text, proven=False)


RULE = Rule(
    name="rail_address",
    title="rail address on its interface",
    scope="port",
    stage="rail",
    needs=(ip_addr.PROBE, *BOOT_PROBES),
    judge=judge,
    by_hand=_by_hand,
    doc=__doc__,
    rank=100,
    essential=True,
    at_restart=True,
)
