"""Every cable ends where the cluster file says.

What
----
The LLDP neighbour of each rail interface is the switch port that `switches:` names for it; on a rail from node to node
it is the other node. Skipped where the file says nothing about the cable.

Why
---
Two swapped cables put ports on the wrong rail or on a switch port without the lossless configuration. Addresses may
still answer, but traffic crosses the fabric twice or is dropped under load, and every other check looks at the wrong
switch port.

Fix
---
Move the cable, or correct `switches:` in the cluster file. Where no neighbour is heard: `feature lldp` on the switch;
some cards swallow LLDP in their firmware (`ethtool --set-priv-flags IF disable-fw-lldp on` for Intel).

Source
------
IEEE 802.1AB; lldpctl(8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.check.rule import Check, Judgement, fail, ok, skip, unknown, warn
from railbed.check.site import PortView
from railbed.model.cluster import Port, Switch, SwitchPort
from railbed.model.switchport import short_name
from railbed.probes import ip_link, lldp
from railbed.probes.lldp import Neighbour

RIGHT, OTHER_NAME, WRONG = "right", "right port of something with another name", "wrong"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the neighbour with the file."""
    meant = _switch_port(port)
    partner = next(port.node.site.cluster.peers(port.node.name, port.port), None) if port.rail.point_to_point else None
    if not meant and not partner:
        yield skip("the cluster file names no switch port for it")
        return
    neighbours = port.read(lldp.PROBE).interfaces.get(port.port.netdev, ())
    if meant:
        name, switch, switch_port = meant
        expected, views = (
            f"{name} {switch_port.name}",
            [_at_switch(one, name, switch, switch_port) for one in neighbours],
        )
    else:
        assert partner
        expected, views = f"{partner[0]} {partner[1].netdev}", [_at_node(one, port, *partner) for one in neighbours]
    yield _best(expected, neighbours, views)


def _best(expected: str, neighbours: Sequence[Neighbour], views: Sequence[str]) -> Judgement:
    """Judge by the neighbour that fits best: a switch may pass on LLDP packets of others."""
    if not neighbours:
        return unknown(
            expected=expected,
            observed="no LLDP neighbour was heard",
            remedy="turn LLDP on at the other end (`feature lldp` on Nexus, lldpd on a node), and wait 30 s",
        )
    for say, view in ((ok, RIGHT), (warn, OTHER_NAME)):
        if view in views:
            return say(expected=expected, observed=_named(neighbours[views.index(view)]))
    return fail(expected=expected, observed=_named(neighbours[0]))


def _switch_port(port: PortView) -> tuple[str, Switch, SwitchPort] | None:
    for name, switch in port.node.site.cluster.switches.items():
        for switch_port in switch.ports:
            if switch_port.node == port.node.name and switch_port.netdev == port.port.netdev:
                return name, switch, switch_port
    return None


def _at_switch(neighbour: Neighbour, name: str, switch: Switch, meant: SwitchPort) -> str:
    if short_name(meant.name) not in (short_name(neighbour.port), short_name(neighbour.port_description or "")):
        return WRONG
    return RIGHT if _is_called(neighbour, name, switch.host) else OTHER_NAME


def _at_node(neighbour: Neighbour, port: PortView, name: str, peer: Port) -> str:
    """A node is known by its name and interface, or by the MAC address that the peer itself shows."""
    other = next((node for node in port.node.site.nodes if node.name == name), None)
    links = other.try_read(ip_link.PROBE) if other else None
    link = links.links.get(peer.netdev) if links else None
    if link and link.address and neighbour.port_type == "mac":
        return RIGHT if link.address.lower() == neighbour.port.lower() else WRONG
    if peer.netdev not in (neighbour.port, neighbour.port_description):
        return WRONG
    host = port.node.site.cluster.nodes[name].host
    return RIGHT if _is_called(neighbour, name, host) else OTHER_NAME


def _is_called(neighbour: Neighbour, name: str, host: str) -> bool:
    """The neighbour's own name may carry a domain; its management address counts as well."""
    system = (neighbour.system or "").lower()
    known = {name.lower(), host.lower()}
    return system in known or system.partition(".")[0] in known or host in neighbour.addresses


def _named(neighbour: Neighbour) -> str:
    is_mac = neighbour.port_type == "mac" and neighbour.port_description
    return f"{neighbour.system or neighbour.chassis} {neighbour.port_description if is_mac else neighbour.port}"


CHECK = Check(
    name="cabling",
    title="cables as in the cluster file",
    scope="port",
    needs=(lldp.PROBE, ip_link.PROBE),
    judge=judge,
    doc=__doc__,
)
