"""The firmware settings of the card behind a port, or why there are none to judge."""

from __future__ import annotations

from typing import Any

from railbed.check.shared.card import CARD_PROBES
from railbed.check.shared.port import rdma_device, rdma_name
from railbed.model.probe import Probe
from railbed.probes import cpu, mlxconfig
from railbed.probes.mlxconfig import CardFirmware
from railbed.rules.judgement import Judgement, skip
from railbed.rules.site import PortView

FIRMWARE_PROBES: tuple[Probe[Any], ...] = (mlxconfig.PROBE, cpu.PROBE, *CARD_PROBES)
"""What `firmware_of` reads: part of `needs` of every rule that calls it."""


def firmware_of(port: PortView, expected: str) -> CardFirmware | Judgement:
    """Return the settings of a port's card; if the tool does not read it, that is not a fault."""
    facts = port.read(mlxconfig.PROBE)
    device = rdma_device(port)
    card = facts.of(device.pci) if device and device.pci else None
    if card is not None and card.settings:
        return card
    processors = port.node.try_read(cpu.PROBE)
    if processors is not None and processors.hypervisor:
        return skip("a virtual machine: the card's host has its firmware settings", expected=expected)
    if card is not None and card.problem:
        return skip(f"mlxconfig: {card.problem}", expected=expected)
    if not facts.cards:
        return skip("no mlxconfig on this node, or no card that it can read", expected=expected)
    return skip(f"mlxconfig does not read {rdma_name(port)}", expected=expected)


def tool_command(port: PortView, assignment: str) -> str:
    """Return the command that writes a setting into the firmware of a port's card."""
    device = rdma_device(port)
    return f"mlxconfig -d {device.pci if device else port.port.rdma} -y set {assignment}"
