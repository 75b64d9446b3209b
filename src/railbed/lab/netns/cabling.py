"""Cables, bridges and addresses, created with one `ip -batch` per namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_interface, ip_network

from railbed.lab.host import run, together
from railbed.lab.model import HOST_MTU, LabNode, StoredLab, management_address, rail_name
from railbed.lab.netns.names import (
    BRIDGE,
    MANAGEMENT,
    UPLINK,
    host_interface,
    namespace_file,
    namespaces,
    node_namespace,
    switch_namespace,
    switch_port,
)

SWITCH_MTU = 9216
THIS_SWITCH, THIS_MACHINE = 253, 254


async def lay_uplink(lab: StoredLab) -> None:
    """Create the switch, and this machine's cable to it."""
    host = host_interface(lab)
    await batch(
        [
            f"netns add {switch_namespace(lab)}",
            f"link add {host} type veth peer name {UPLINK} netns {switch_namespace(lab)}",
            f"addr add {management_address(lab.number, THIS_MACHINE)}/24 dev {host}",
            f"link set {host} up",
        ]
    )


async def lay_cables(lab: StoredLab) -> None:
    """Create the nodes' namespaces and the cables between them."""
    await batch([f"netns add {node_namespace(lab, machine)}" for machine in lab.machines])
    await batch(_switch_lines(lab), switch_namespace(lab))
    await together(batch(_machine_lines(lab, machine), node_namespace(lab, machine)) for machine in lab.machines)


async def remove_cables(lab: StoredLab) -> None:
    """Remove the namespaces, and with them every interface of the lab."""
    present = [namespace for namespace in namespaces(lab) if namespace_file(namespace).exists()]
    # Removing one end of a veth pair removes both, so this machine's end disappears with the switch's namespace; it is
    # removed explicitly only if that namespace did not exist.
    await batch([f"netns del {namespace}" for namespace in present])
    if host_interface(lab) in {link["ifname"] for link in json.loads(await run(["ip", "-j", "link"]))}:
        await run(["ip", "link", "del", host_interface(lab)], check=False)


async def card_addresses(lab: StoredLab, node: LabNode) -> dict[str, str]:
    """Return the MAC addresses of a node's interfaces, by interface."""
    links = json.loads(await run(["ip", "-n", node_namespace(lab, node), "-j", "link"]))
    return {link["ifname"]: link["address"] for link in links}


def numbers_in_use(addresses: str, routes: str) -> Iterator[int]:
    """Yield the lab numbers whose management network this machine has addresses in, or routes to."""
    used = [
        ip_interface(f"{address['local']}/{address['prefixlen']}").network
        for link in json.loads(addresses)
        for address in link["addr_info"]
    ]
    used += [ip_network(route["dst"]) for route in json.loads(routes) if route["dst"] != "default"]
    for number in range(1, 255):
        network = ip_network(f"{management_address(number, 0)}/24")
        if any(other.version == network.version and other.overlaps(network) for other in used):
            yield number


async def batch(lines: list[str], namespace: str = "") -> None:
    """Run many `ip` commands as one."""
    if lines:
        where = ["-n", namespace] if namespace else []
        await run(["ip", *where, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _switch_lines(lab: StoredLab) -> list[str]:
    lines = ["link set lo up"]
    for bridge in (BRIDGE, *lab.rails):
        lines += [f"link add {bridge} type bridge mcast_snooping 0", f"link set {bridge} up"]
    lines.append(f"link set {UPLINK} master {BRIDGE} up")
    if lab.spec.switch:
        lines.append(f"addr add {management_address(lab.number, THIS_SWITCH)}/24 dev {BRIDGE}")
    for machine in lab.machines:
        port = switch_port(machine, None)
        lines += [
            f"link add {port} type veth peer name {MANAGEMENT} netns {node_namespace(lab, machine)}",
            f"link set {port} master {BRIDGE} up",
        ]
    for node, rail in lab.ports():
        port, name, peer = switch_port(node, rail), rail_name(rail), node_namespace(lab, node)
        lines += [
            f"link add {port} mtu {SWITCH_MTU} type veth peer name {name} mtu {HOST_MTU} netns {peer}",
            f"link set {port} master {name} up",
        ]
    return lines


def _machine_lines(lab: StoredLab, machine: LabNode) -> list[str]:
    lines = [
        "link set lo up",
        f"addr add {management_address(lab.number, machine.number)}/24 dev {MANAGEMENT}",
        f"link set {MANAGEMENT} up",
    ]
    for node, rail in lab.ports():
        if node == machine:
            lines += [f"addr add {node.rail_address(rail)}/24 dev {rail_name(rail)}", f"link set {rail_name(rail)} up"]
    return lines
