"""Each node is on the switch port that the cluster file gives.

What
----
On each cabled switch port, the LLDP neighbour of the switch is the node and interface of the cluster file. Without
LLDP, the switch learned the MAC address of that interface on that port.

Why
---
Rules and changes for a switch rely on the cluster file's ports. If two cables are swapped, the wrong port is configured
and judged, and the node behind the other one stays on a port that drops packets. The rule `cabling` checks from the
node's end; this one also works for nodes without LLDP.

Fix
---
Move the cable, or correct `switches:` in the cluster file; `railbed discover --switch` writes the cabling that the
switch reports.
If the switch shows neither: `feature lldp` on the switch and lldpd on the node, or send a packet over the interface.

Source
------
IEEE 802.1AB; Cisco Nexus 9000 Series NX-OS System Management Configuration Guide, "Configuring LLDP".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.cabling import Neighbour, port_key
from railbed.parsing.nexus.answer import find_port
from railbed.probes import ip_link
from railbed.probes.nexus import lldp, mac_table
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import CableView


def judge(cable: CableView) -> Iterator[Judgement]:
    """Compare the switch's neighbour on the port with the file: by LLDP, else by the MAC table."""
    switch_port = cable.switch_port
    expected = f"{cable.subject} on {switch_port.port.name}"
    links = cable.port.read(ip_link.PROBE).links
    own = links.get(cable.port.port.netdev)
    address = own.address.lower() if own and own.address else ""
    facts = switch_port.switch.try_read(lldp.PROBE)
    neighbours = find_port(facts.ports, switch_port.port.name) if facts else None
    if neighbours:
        yield _judge_neighbours(cable, neighbours, address, expected)
    else:
        yield _judge_address(cable, address, expected)


def _judge_neighbours(cable: CableView, neighbours: tuple[Neighbour, ...], address: str, expected: str) -> Judgement:
    for neighbour in neighbours:
        if _is_end(cable, neighbour, address):
            return ok(expected=expected, observed=f"LLDP: {_describe(neighbour)}")
    return fail(expected=expected, observed=f"LLDP: {_describe(neighbours[0])}")


def _is_end(cable: CableView, neighbour: Neighbour, address: str) -> bool:
    """Identify a node by its MAC address, else by its name and interface."""
    if neighbour.port_type == "mac" and address:
        return neighbour.port.lower() == address
    name = cable.port.node.name
    is_node = neighbour.is_device(name, cable.port.node.node.host)
    return is_node and cable.port.port.netdev in (neighbour.port, neighbour.port_description)


def _judge_address(cable: CableView, address: str, expected: str) -> Judgement:
    entries = cable.switch_port.read(mac_table.PROBE).entries
    ports = sorted({entry.port for entry in entries if entry.address == address and entry.learned})
    wanted = cable.switch_port.port.name
    if not ports:
        observed = f"no LLDP neighbour on that port, and {address or 'its MAC address'} is not in the MAC table"
        return unknown(expected=expected, observed=observed, remedy="enable LLDP on both, or ping over the interface")
    if any(port_key(port) == port_key(wanted) for port in ports):
        return ok(expected=expected, observed=f"MAC table: {address} on {wanted}")
    return fail(expected=expected, observed=f"MAC table: {address} on {ports[0]}")


def _describe(neighbour: Neighbour) -> str:
    return f"{neighbour.system or neighbour.chassis} {neighbour.port}"


RULE = Rule(
    name="cable_ends",
    title="nodes on the switch ports of the cluster file",
    scope="cable",
    needs=(lldp.PROBE, mac_table.PROBE, ip_link.PROBE),
    judge=judge,
    doc=__doc__,
)
