"""No bond, team or LAG under a rail.

What
----
The rail interface is neither a bond or team, nor a member of one, nor a VLAN on top of one. A VLAN on a plain port is
fine. A RoCE LAG is a warning: the two ports of one mlx5 card with a single RDMA device between them (`mlx5_bond_0`),
which somebody chose, and in which the card itself spreads connections over both ports.

Why
---
A bond spreads flows over its links by a hash, and one RDMA connection is one flow: it uses one link, no matter how many
there are. A ring all-reduce has few, large flows, so some links carry two and others none. Rails give each link to a
connection on purpose: NCCL uses all of them at full speed, and a failing link can be identified. In a RoCE LAG a cable
may fail without ending connections, but two connections may still share a port while the other idles.

Fix
---
Remove the bond (netplan or the network configuration) and give each port an address on its own rail; on
the switch, remove the port-channel. A RoCE LAG can stay: then open several connections between each pair of nodes
(`NCCL_IB_QPS_PER_CONNECTION=4`), so that both ports get some.

Source
------
Linux kernel documentation, bonding (`xmit_hash_policy`); RoCEv2 sends each connection from one UDP source port;
NVIDIA, RoCE over LAG (one RDMA device in the modes active-backup, balance-xor and 802.3ad; connections take turns on
the ports).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import no_interface
from railbed.probes import bonding, ip_link, pcie
from railbed.probes.ip_link import Link
from railbed.probes.pcie import slot_of
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

BUNDLES = ("bond", "team")
EXPECTED = "a separate port"
STANDBY = "active-backup"
LAG_DRIVER = "mlx5_core"
LAG_ADVICE = "deliberate? then open several connections per pair of nodes: NCCL_IB_QPS_PER_CONNECTION=4"


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
    device = _lag_device(port, links, bundle)
    judgement = warn if device or STANDBY in mode else fail
    yield judgement(
        expected=EXPECTED,
        observed=f"{_relation(link, bundle)}{f', a RoCE LAG ({device})' if device else ''}",
        remedy=LAG_ADVICE if device else "",
        evidence=f"{mode}: {', '.join(member.name for member in details.members)}" if details else "",
    )


def _lag_device(port: PortView, links: dict[str, Link], bundle: Link) -> str:
    """Return the RDMA device of a RoCE LAG: the only one of all members, which are ports of one card; else nothing."""
    cards = port.node.try_read(pcie.PROBE)
    members = [link.name for link in links.values() if link.master == bundle.name]
    own = {address: card for address, card in (cards.cards if cards else {}).items() if {*members} & {*card.netdevs}}
    devices = {device for card in own.values() for device in card.rdma}
    is_one_card = len(own) == len(members) > 1 and len(set(map(slot_of, own))) == 1
    is_capable = all(card.driver == LAG_DRIVER for card in own.values())
    return devices.pop() if is_one_card and is_capable and len(devices) == 1 else ""


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
    needs=(ip_link.PROBE, bonding.PROBE, pcie.PROBE),
    judge=judge,
    doc=__doc__,
)
