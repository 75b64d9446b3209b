"""No bond, team or LAG under a rail.

What
----
The rail interface is neither a bond or team, nor a member of one, nor a VLAN on top of one. A VLAN on a plain port is
fine.

Why
---
A bond spreads flows over its links by a hash, and one RDMA connection is one flow: it uses one link, no matter how many
there are. A ring all-reduce has few, large flows, so some links carry two and others none. Rails give each link to a
connection on purpose: NCCL uses all of them at full speed, and a failing link can be identified.

Fix
---
Remove the bond (netplan or the network configuration) and give each port an address on its own rail; on
the switch, remove the port-channel.

Source
------
Linux kernel documentation, bonding (`xmit_hash_policy`); RoCEv2 sends each connection from one UDP source port.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import no_interface
from railbed.probes import bonding, ip_link
from railbed.probes.ip_link import Link
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

BUNDLES = ("bond", "team")
EXPECTED = "a separate port"
STANDBY = "active-backup"


def judge(port: PortView) -> Iterator[Judgement]:
    """Follow the interface down through VLANs and up to its master."""
    links = port.read(ip_link.PROBE).links
    link = links.get(port.port.netdev)
    if link is None:
        yield no_interface(port.port.netdev)
        return
    chain = _downwards(links, link)
    bundle = next(filter(None, (_bundle(links, link) for link in chain)), None)
    if bundle is None:
        below = "".join(f" on {link.name}" for link in chain[1:])
        yield ok(expected=EXPECTED, observed=f"{link.kind or 'port'}{below}")
        return
    bonds = port.node.try_read(bonding.PROBE)
    details = bonds.bonds.get(bundle.name) if bonds else None
    mode = details.mode if details else ""
    judgement = warn if STANDBY in mode else fail
    yield judgement(
        expected=EXPECTED,
        observed=_relation(link, bundle),
        evidence=f"{mode}: {', '.join(member.name for member in details.members)}" if details else "",
    )


def _relation(link: Link, bundle: Link) -> str:
    if bundle.name == link.name:
        return f"{link.name} is a {bundle.kind}"
    return f"{'a member of' if link.master == bundle.name else 'on top of'} the {bundle.kind} {bundle.name}"


def _downwards(links: dict[str, Link], link: Link) -> list[Link]:
    """Return the interface and those below it, as under a VLAN."""
    chain = [link]
    while (parent := links.get(chain[-1].parent or "")) and parent not in chain:
        chain.append(parent)
    return chain


def _bundle(links: dict[str, Link], link: Link) -> Link | None:
    """Return the bond or team that an interface belongs to; a bond belongs to itself."""
    master = links.get(link.master or "")
    return next((member for member in (link, master) if member and member.kind in BUNDLES), None)


RULE = Rule(
    name="bond",
    title="no bond under a rail",
    scope="port",
    needs=(ip_link.PROBE, bonding.PROBE),
    judge=judge,
    doc=__doc__,
)
