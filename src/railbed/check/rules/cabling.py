"""Every cable is connected as in the cluster file.

What
----
The LLDP neighbour of each rail interface is the switch port that `switches:` names for it; on a rail from node to node
it is the other node. Skipped if the file does not contain the cable.

Why
---
Two swapped cables put ports on the wrong rail or on a switch port without the lossless configuration. Addresses may
still answer, but traffic crosses the fabric twice or is dropped under load, and every other check looks at the wrong
switch port.

Fix
---
Move the cable, or correct `switches:` in the cluster file. If no neighbour appears: `feature lldp` on the switch;
some cards consume LLDP in their firmware (`ethtool --set-priv-flags IF disable-fw-lldp on` for Intel).

Source
------
IEEE 802.1AB; lldpctl(8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.model.cabling import Cable, Neighbour, far_end, partner_of
from railbed.model.cluster import Port
from railbed.probes import ip_link, lldp
from railbed.rules.judgement import Judgement, fail, ok, unknown, warn
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import PortView

RIGHT, OTHER_NAME, WRONG = "right", "right port of a device with another name", "wrong"


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the neighbour with the file."""
    cluster = port.site.cluster
    cable = port.site.cabling.of_node(port.node.name, port.port)
    partner = partner_of(cluster, port.node.name, port.port)
    neighbours = port.read(lldp.PROBE).interfaces.get(port.port.netdev, ())
    if cable:
        expected = f"{cable.switch} {cable.switch_port.name}"
        matches = [_match_switch(neighbour, port, cable) for neighbour in neighbours]
    else:
        assert partner
        expected = f"{partner[0]} {partner[1].netdev}"
        matches = [_match_node(neighbour, port, *partner) for neighbour in neighbours]
    yield _best(expected, neighbours, matches)


def _best(expected: str, neighbours: Sequence[Neighbour], matches: Sequence[str]) -> Judgement:
    """Judge by the best matching neighbour: a switch may forward the LLDP packets of other devices."""
    if not neighbours:
        return unknown(
            expected=expected,
            observed="no LLDP neighbour seen",
            remedy="turn LLDP on at the other end (`feature lldp` on Nexus, lldpd on a node), and wait 30 s",
        )
    for judgement, match in ((ok, RIGHT), (warn, OTHER_NAME)):
        if match in matches:
            return judgement(expected=expected, observed=_describe(neighbours[matches.index(match)]))
    return fail(expected=expected, observed=_describe(neighbours[0]))


def _match_switch(neighbour: Neighbour, port: PortView, cable: Cable) -> str:
    if not neighbour.is_port(cable.switch_port.name):
        return WRONG
    host = port.site.cluster.switches[cable.switch].host
    return RIGHT if neighbour.is_device(cable.switch, host) else OTHER_NAME


def _match_node(neighbour: Neighbour, port: PortView, name: str, peer: Port) -> str:
    """Identify a node by its name and interface, or by the MAC address that the peer reports."""
    other = port.site.nodes_by_name.get(name)
    links = other.try_read(ip_link.PROBE) if other else None
    link = links.links.get(peer.netdev) if links else None
    if link and link.address and neighbour.port_type == "mac":
        return RIGHT if link.address.lower() == neighbour.port.lower() else WRONG
    if peer.netdev not in (neighbour.port, neighbour.port_description):
        return WRONG
    host = port.site.cluster.nodes[name].host
    return RIGHT if neighbour.is_device(name, host) else OTHER_NAME


def _describe(neighbour: Neighbour) -> str:
    return f"{neighbour.system or neighbour.chassis} {neighbour.port_name}"


def _unless(port: PortView) -> str:
    site, name = port.site, port.node.name
    is_cabled = site.cabling.of_node(name, port.port) or partner_of(site.cluster, name, port.port)
    return "" if is_cabled else "the cluster file names no switch port for it"


def _by_hand(port: PortView) -> Iterator[HandStep]:
    """One step for a cable between two nodes, whichever end is looked at."""
    cluster = port.node.site.cluster
    if partner := partner_of(cluster, port.node.name, port.port):
        ends = sorted((port.subject, f"{partner[0]}/{partner[1].netdev}"))
        yield HandStep(port.subject, f"connect {ends[0]} to {ends[1]}")
    else:
        yield HandStep(port.subject, f"plug its cable into {far_end(cluster, port.node.name, port.port)}")


RULE = Rule(
    name="cabling",
    title="cables as in the cluster file",
    scope="port",
    stage="cabling",
    needs=(lldp.PROBE, ip_link.PROBE),
    judge=judge,
    by_hand=_by_hand,
    unless=_unless,
    doc=__doc__,
)
