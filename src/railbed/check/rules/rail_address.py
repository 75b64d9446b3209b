"""Every rail interface has its address from the cluster file, with the rail's prefix.

What
----
`ip addr` shows the address of the cluster file on its interface, with the prefix length of the rail's subnet, and on
no other interface of the node.

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

from railbed.check.shared.port import some
from railbed.model.fix import Fix, Persistence, RunStep, Step, run
from railbed.probes import ip_addr
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


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
        yield ok(expected=expected, observed=f"{address}/{here.prefix}")


def _fix(port: PortView, *, add: str = "", remove: str = "", netdev: str = "") -> Fix:
    """Add before removing, so that the interface is never without the address."""
    netdev = shlex.quote(netdev or port.port.netdev)

    def steps(new: str, old: str) -> tuple[Step, ...]:
        adding = run(f"ip addr replace {new} dev {netdev}") if new else ()
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


RULE = Rule(
    name="rail_address",
    title="rail address on its interface",
    scope="port",
    needs=(ip_addr.PROBE,),
    judge=judge,
    doc=__doc__,
    rank=100,
    essential=True,
    at_restart=True,
)
