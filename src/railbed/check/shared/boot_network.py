"""What the next boot makes of what network services store: addresses, MTUs, whether an interface is up."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface

from railbed.check.shared.boot import (
    SAME,
    AfterBoot,
    by_unit,
    unclear_after,
    understood,
    unit_blocks,
    unit_key,
    unknown_after,
)
from railbed.model.fix import Fix
from railbed.parsing.netconfig.stored import StoredPort
from railbed.probes.boot_network import BootNetwork, BootPort
from railbed.rules.site import PortView


def mtu_after_boot(port: PortView, rule: str, fix: Fix) -> AfterBoot:
    """Return what the next boot makes of the MTU of a port."""
    if answer := by_unit(port.node, unit_key(rule, port), fix):
        return answer
    network = understood(port.node, "mtu")
    return network if isinstance(network, AfterBoot) else _stored_mtu(port, network)


def _stored_mtu(port: PortView, network: BootNetwork) -> AfterBoot:
    boot = network.ports.get(port.port.netdev, BootPort())
    values = {service.mtu: service for service in boot.stored if service.mtu is not None}
    unclear = [service for service in boot.stored if "mtu" in service.unclear]
    if unclear or len(values) > 1:
        return unclear_after((*unclear, *values.values())[0])
    if values:
        ((mtu, service),) = values.items()
        return SAME if mtu == port.mtu else _other(f"MTU {mtu}", service, network)
    if boot.starts_at is None:
        return unknown_after("the MTU that the driver starts with is not known")
    return SAME if boot.starts_at == port.mtu else _nowhere(boot.stored, network)


def address_after_boot(port: PortView, rule: str, fix: Fix) -> AfterBoot:
    """Return what the next boot makes of the address of a port."""
    if answer := by_unit(port.node, unit_key(rule, port), fix):
        return answer
    network = understood(port.node, "address")
    return network if isinstance(network, AfterBoot) else _stored_address(port, network)


def _stored_address(port: PortView, network: BootNetwork) -> AfterBoot:
    services = network.ports.get(port.port.netdev, BootPort()).stored
    stored = [(ip_interface(text), service) for service in services for text in service.addresses]
    same = [(interface, service) for interface, service in stored if interface.ip == port.port.address]
    subnet = port.rail.subnet
    if any(subnet is None or interface.network.prefixlen == subnet.prefixlen for interface, _ in same):
        return SAME
    if unclear := [service for service in services if "addresses" in service.unclear]:
        return unclear_after(unclear[0])
    if port.port.address.version != 4:
        return unknown_after("a router may announce it")
    for service in services:
        if service.asks_dhcp:
            reason = f"after a reboot whatever DHCP leases: {_who(service, network)} asks for it"
            return AfterBoot(state="other", reason=reason, is_lease=True)
    if stored:
        interface, service = (same or stored)[0]
        return _other(str(interface), service, network)
    return _nowhere(services, network)


def up_after_boot(port: PortView, rule: str, fix: Fix) -> AfterBoot:
    """Return whether the next boot switches the interface of a port on."""
    if answer := by_unit(port.node, unit_key(rule, port), fix):
        return answer
    commands = [command for commands in unit_blocks(port.node).values() for command in commands]
    if any(command.startswith(f"ip link set dev {port.port.netdev} ") and " up" in command for command in commands):
        return SAME
    network = understood(port.node, "link")
    if isinstance(network, AfterBoot):
        return network
    boot = network.ports.get(port.port.netdev, BootPort())
    if boot.stored:
        return SAME
    if "NetworkManager" in network.services:
        return unknown_after("NetworkManager starts interfaces without a stored connection, too")
    return _nowhere(boot.stored, network)


def _other(value: str, service: StoredPort, network: BootNetwork) -> AfterBoot:
    reason = f"after a reboot {value}: {_who(service, network)} stores it"
    return AfterBoot(state="other", reason=reason)


def _nowhere(stored: Sequence[StoredPort], network: BootNetwork) -> AfterBoot:
    who = _who(stored[0], network) if stored else network.services[0]
    return AfterBoot(state="nowhere", reason=f"gone after a reboot: {who} does not store it")


def _who(service: StoredPort, network: BootNetwork) -> str:
    written = ", partly written by cloud-init," if network.cloud_init and service.source.startswith("netplan") else ""
    return f"{service.source}{written}"
