"""PCIe between cards and GPUs: how fast a port is, what a machine's PCIe settings are for, and what its GPUs share."""

from __future__ import annotations

from railbed.check.shared.port import rdma_device
from railbed.probes import cpu
from railbed.probes.pcie_tuning import PcieTuning
from railbed.rules.site import NodeView, PortView


def port_speed(port: PortView) -> float | None:
    """Return the speed of a port in Gb/s, from the cluster file or else from its RDMA device."""
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return port.rail.speed or (own.rate_gbps if own else None)


def not_bare_metal(node: NodeView, facts: PcieTuning) -> str:
    """Return why PCIe settings of a node are those of virtual machines, or for them; empty if they are its own."""
    processors = node.try_read(cpu.PROBE)
    if processors is not None and processors.hypervisor:
        return "a virtual machine: its host has the settings"
    if facts.guests:
        return "virtual machines run here: their isolation needs it"
    return ""


def shared_bridges(facts: PcieTuning) -> tuple[str, ...]:
    """Return the bridges below the ones that a GPU and a card have in common, and these themselves."""
    gpus = [function for function in facts.functions.values() if function.kind == "gpu"]
    cards = [function for function in facts.functions.values() if function.kind == "card"]
    bridges: dict[str, None] = {}
    for gpu in gpus:
        for card in cards:
            # The first bridge is the port of the root: what goes through it has left the switch.
            common = set(gpu.bridges[1:]) & set(card.bridges[1:])
            if common:
                bridges |= dict.fromkeys(bridge for bridge in (*gpu.bridges[1:], *card.bridges[1:]))
    return tuple(bridges)
