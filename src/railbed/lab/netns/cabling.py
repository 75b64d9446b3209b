"""Cables, bridges and addresses of a lab, created with one `ip -batch` per namespace, and the faults of cables.

A cable has a queue at both ends: the node's end has the speed of its card, the switch's end that of the rail. Faults
limit its speed, delay its packets, or take the link down. nftables, which every kernel with bridges has, drops and
marks packets where the switch forwards them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_interface, ip_network

from railbed.lab.host import HostFault, run, together
from railbed.lab.model import HOST_MTU, LabNode, StoredLab, management_address, rail_name
from railbed.lab.netns.machine import (
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


MARK_RATE = 1e9
"""Bit/s above which a rail marks by default."""
QUEUE_SECONDS = 0.01
SMALLEST_BURST = 131072
"""A packet on a virtual cable can be as large as 64 KiB, regardless of the MTU: the sender leaves segmentation to the
card."""


async def shape_nodes(lab: StoredLab) -> None:
    """Give the nodes' ends of the cables the speed and delay of the lab."""
    if lab.spec.rate is None and lab.spec.delay is None:
        return
    for node in lab.nodes:
        try:
            await settle_cards(lab, node)
        except HostFault as error:
            if lab.spec.delay is not None and "qdisc kind is unknown" in error.message:
                raise HostFault("this machine's kernel has no netem, which --delay needs") from error
            raise


async def settle_rails(lab: StoredLab) -> None:
    """Apply the declared faults to links, queues, loss and marks."""
    switch = switch_namespace(lab)
    await batch([f"link set {port} {'up' if linked else 'down'}" for port, linked in _links(lab)], switch)
    await _settle_queues(lab, switch)
    await run(["ip", "netns", "exec", switch, "nft", "-f", "-"], stdin=_filter(lab))


async def settle_mtu(lab: StoredLab, node: LabNode) -> None:
    """Give the rails of a node the MTU of its fault, or the default."""
    fault = lab.of("mtu", node.name)
    mtu = int(fault.value or HOST_MTU) if fault else HOST_MTU
    await batch([f"link set {name} mtu {mtu}" for name in lab.rails], node_namespace(lab, node))


async def settle_cards(lab: StoredLab, node: LabNode) -> None:
    """Give the node's own ends of its cables the speed and delay of the lab, or of a fault."""
    namespace = node_namespace(lab, node)
    shown = json.loads(await run(["tc", "-n", namespace, "-j", "qdisc", "show"]))
    shaped = {queue["dev"] for queue in shown if queue["kind"] in ("tbf", "netem")}
    lines = []
    for name, rail in lab.rails.items():
        # A slow rail is limited at the switch; only a fault of the node itself limits its card.
        fault = lab.of("slow", node.name)
        rate = lab.find_limit(node, rail) if fault else lab.spec.rate
        if rate is not None or lab.spec.delay is not None:
            lines.append(f"qdisc replace dev {name} root {_card_queue(lab, rate)}")
        elif name in shaped:
            lines.append(f"qdisc del dev {name} root")
    await _tc(lines, namespace)


def _links(lab: StoredLab) -> Iterator[tuple[str, bool]]:
    """Yield each port of the switch and whether it has a link; a machine without power has none."""
    for machine in lab.machines:
        yield switch_port(machine, None), not lab.of("kill", machine.name)
    for node, rail in lab.ports():
        yield switch_port(node, rail), not lab.of("kill", node.name) and not lab.is_cut(node, rail)


async def _settle_queues(lab: StoredLab, switch: str) -> None:
    shown = json.loads(await run(["tc", "-n", switch, "-j", "qdisc", "show"]))
    shaped = {queue["dev"] for queue in shown if queue["kind"] == "tbf"}
    lines = []
    for node, rail in lab.ports():
        port, rate = switch_port(node, rail), lab.find_limit(node, rail) or lab.spec.rate
        if rate is not None:
            lines.append(f"qdisc replace dev {port} root {_bucket(rate)}")
        elif port in shaped:
            lines.append(f"qdisc del dev {port} root")
    await _tc(lines, switch)


def _card_queue(lab: StoredLab, rate: float | None) -> str:
    if lab.spec.delay is None:
        assert rate is not None
        return _bucket(rate)
    limit = f" rate {rate:.0f}bit" if rate else ""
    return f"netem delay {lab.spec.delay * 1e6:.0f}us limit 100000{limit}"


def _bucket(rate: float) -> str:
    queue = max(SMALLEST_BURST, int(rate / 8 * QUEUE_SECONDS))
    return f"tbf rate {rate:.0f}bit burst {max(SMALLEST_BURST, int(rate / 8 / 250))} limit {2 * queue}"


def _filter(lab: StoredLab) -> str:
    """Return the switch's packet filter. Loss comes first: what is dropped is not marked."""
    rules = []
    for rail, number in lab.rails.items():
        # Not by the bridge's name, which not every kernel can match.
        of_rail = f"iifname {{ {', '.join(switch_port(node, number) for node in lab.nodes)} }}"
        if fault := lab.of("lose", rail):
            percent = fault.value or 0
            chance = "" if percent >= 100 else f"numgen random mod 100000 < {round(percent * 1000)} "
            rules.append(f"{of_rail} {chance}counter drop")
        if fault := lab.of("mark", rail):
            over = f"limit rate over {int((fault.value or MARK_RATE) / 8)} bytes/second burst {SMALLEST_BURST} bytes"
            rules.append(f"{of_rail} ether type ip ip ecn != not-ect {over} ip ecn set ce counter")
    body = "".join(f"  {rule}\n" for rule in rules)
    chain = f" chain forward {{\n  type filter hook forward priority 0\n{body} }}\n"
    return f"flush ruleset\ntable bridge railbed {{\n{chain}}}\n"


async def _tc(lines: list[str], namespace: str) -> None:
    if lines:
        await run(["tc", "-n", namespace, "-batch", "-"], stdin="\n".join(lines) + "\n")
