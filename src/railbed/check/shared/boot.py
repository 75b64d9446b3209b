"""What the next boot makes of a setting that is right now, and the warning if it is not the same.

A setting survives if the network services or railbed's unit store it. It is reported as lost only if everything that
acts at boot was read and understood: what is not known is no reason to warn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from typing import Any, Literal

from railbed.check.shared.qos import ofed_qos
from railbed.model.fix import Fix, RunStep
from railbed.model.probe import Probe
from railbed.parsing.boot_unit import read_unit
from railbed.parsing.netconfig.stored import StoredPort
from railbed.probes import boot_config, boot_network, boot_scripts
from railbed.probes.boot_config import UNIT
from railbed.probes.boot_network import BootNetwork, BootPort
from railbed.rules.judgement import Judgement, warn
from railbed.rules.site import NodeView, PortView

BOOT_PROBES: tuple[Probe[Any], ...] = (boot_config.PROBE, boot_network.PROBE, boot_scripts.PROBE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterBoot:
    """What the next boot makes of a setting."""

    state: Literal["same", "other", "nowhere", "unknown"]
    reason: str = ""
    """What is stored instead, and where; or why that is not known."""
    is_lease: bool = False
    """A DHCP server decides."""


SAME = AfterBoot(state="same")


def survives(right: Judgement, later: AfterBoot, fix: Fix) -> Judgement:
    """Return the judgement of a setting that is right now: a warning if the next boot restores something else.

    `fix` makes the setting; `configure` only stores it.
    """
    match later.state:
        case "same":
            return right
        case "unknown":
            return replace(right, evidence=right.evidence or later.reason)
    return warn(
        expected=right.expected,
        observed=f"{right.observed} right now, {later.reason}",
        subject=right.subject,
        evidence=right.evidence,
        fix=replace(fix, at_boot_only=True, interrupts=False, condition="", alternative=""),
    )


def mtu_after_boot(port: PortView, rule: str, fix: Fix) -> AfterBoot:
    """Return what the next boot makes of the MTU of a port."""
    if answer := _by_unit(port.node, f"{rule} {port.port.netdev}", fix):
        return answer
    network = _understood(port.node, "mtu")
    return network if isinstance(network, AfterBoot) else _stored_mtu(port, network)


def _stored_mtu(port: PortView, network: BootNetwork) -> AfterBoot:
    boot = network.ports.get(port.port.netdev, BootPort())
    values = {service.mtu: service for service in boot.stored if service.mtu is not None}
    unclear = [service for service in boot.stored if "mtu" in service.unclear]
    if unclear or len(values) > 1:
        return _unclear((*unclear, *values.values())[0])
    if values:
        ((mtu, service),) = values.items()
        return SAME if mtu == port.mtu else _other(f"MTU {mtu}", service, network)
    if boot.starts_at is None:
        return AfterBoot(state="unknown", reason="the MTU that the driver starts with is not known")
    return SAME if boot.starts_at == port.mtu else _nowhere(boot.stored, network)


def address_after_boot(port: PortView, rule: str, fix: Fix) -> AfterBoot:
    """Return what the next boot makes of the address of a port."""
    if answer := _by_unit(port.node, f"{rule} {port.port.netdev}", fix):
        return answer
    network = _understood(port.node, "address")
    return network if isinstance(network, AfterBoot) else _stored_address(port, network)


def _stored_address(port: PortView, network: BootNetwork) -> AfterBoot:
    services = network.ports.get(port.port.netdev, BootPort()).stored
    stored = [(ip_interface(text), service) for service in services for text in service.addresses]
    same = [(interface, service) for interface, service in stored if interface.ip == port.port.address]
    subnet = port.rail.subnet
    if any(subnet is None or interface.network.prefixlen == subnet.prefixlen for interface, _ in same):
        return SAME
    if unclear := [service for service in services if "addresses" in service.unclear]:
        return _unclear(unclear[0])
    if port.port.address.version != 4:
        return AfterBoot(state="unknown", reason="a router may announce it")
    for service in services:
        if service.asks_dhcp:
            reason = f"after a reboot whatever DHCP leases: {_who(service, network)} asks for it"
            return AfterBoot(state="other", reason=reason, is_lease=True)
    if stored:
        interface, service = (same or stored)[0]
        return _other(str(interface), service, network)
    return _nowhere(services, network)


def unit_after_boot(port: PortView, rule: str, fix: Fix, setting: Literal["qos", "tos"]) -> AfterBoot:
    """Return what the next boot makes of a setting of a port that only commands can restore."""
    if answer := _by_unit(port.node, f"{rule} {port.port.netdev}", fix):
        return answer
    network = _understood(port.node, setting)
    if isinstance(network, AfterBoot):
        return network
    if setting == "qos" and (reason := _other_master(port, network)):
        return AfterBoot(state="unknown", reason=reason)
    return AfterBoot(state="nowhere", reason="gone after a reboot: nothing sets it at boot")


def _other_master(port: PortView, network: BootNetwork) -> str:
    """Return what besides commands may give a port its QoS; empty if nothing does."""
    if network.lldpad:
        return "lldpad may also set it at boot"
    qos = ofed_qos(port)
    by_host = network.ports.get(port.port.netdev, BootPort()).dcbx_by_host
    if qos and qos.dcbx_mode:
        by_host = qos.dcbx_mode == "OS controlled"
    return "" if by_host else "the card may take it from the switch (DCBX)"


def _by_unit(node: NodeView, key: str, fix: Fix) -> AfterBoot | None:
    """Return the answer of railbed's unit, which runs last at boot; None if it does not set this."""
    boot = node.try_read(boot_config.PROBE)
    if boot is None or boot.unit_enabled is False:
        return None
    blocks = read_unit(boot.files.get(UNIT, ""))
    wanted = {step.command for step in fix.apply if isinstance(step, RunStep)}
    if any(wanted <= set(commands) for commands in blocks.values()):
        return SAME
    if key not in blocks:
        return None
    return AfterBoot(state="other", reason=f"after a reboot what {UNIT} sets: {'; '.join(blocks[key])}")


def _understood(node: NodeView, setting: str) -> BootNetwork | AfterBoot:
    """Return the facts if all that sets this at boot is understood, else why not."""
    network, scripts = node.try_read(boot_network.PROBE), node.try_read(boot_scripts.PROBE)
    files = scripts.of(setting) if scripts else None
    if network is None or files is None or not network.services:
        return AfterBoot(state="unknown")
    if others := (*network.unread, *network.agents, *files):
        return AfterBoot(state="unknown", reason=f"{others[0]} may also set it at boot")
    return network


def _unclear(service: StoredPort) -> AfterBoot:
    reason = f"{service.source} may store it in a way that railbed does not understand"
    return AfterBoot(state="unknown", reason=reason)


def _other(value: str, service: StoredPort, network: BootNetwork) -> AfterBoot:
    reason = f"after a reboot {value}: {_who(service, network)} stores it"
    return AfterBoot(state="other", reason=reason)


def _nowhere(stored: Sequence[StoredPort], network: BootNetwork) -> AfterBoot:
    who = _who(stored[0], network) if stored else network.services[0]
    return AfterBoot(state="nowhere", reason=f"gone after a reboot: {who} does not store it")


def _who(service: StoredPort, network: BootNetwork) -> str:
    written = ", partly written by cloud-init," if network.cloud_init and service.source.startswith("netplan") else ""
    return f"{service.source}{written}"
