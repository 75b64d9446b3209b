"""Names of a lab's parts in the kernel, all derived from its random id."""

from __future__ import annotations

from pathlib import Path

from railbed.lab.model import LabNode, StoredLab, rail_name

MANAGEMENT = "eth0"
"""The management interface on a node."""
BRIDGE = "mgmt"
"""The management bridge in the switch's namespace."""
UPLINK = "uplink"
"""The end of this machine's cable in the switch's namespace."""


def switch_namespace(lab: StoredLab) -> str:
    """Return the network namespace of the switch."""
    return f"railbed-{lab.id}-switch"


def node_namespace(lab: StoredLab, node: LabNode) -> str:
    """Return the network namespace of a node."""
    return f"railbed-{lab.id}-{node.name}"


def namespaces(lab: StoredLab) -> list[str]:
    """Return all network namespaces of a lab."""
    return [switch_namespace(lab), *(node_namespace(lab, machine) for machine in lab.machines)]


def namespace_file(namespace: str) -> Path:
    """Return the path of the kernel's handle for a network namespace."""
    return Path("/run/netns") / namespace


def host_interface(lab: StoredLab) -> str:
    """Return this machine's interface to a lab."""
    return f"railbed-{lab.id}"


def switch_port(node: LabNode, rail: int | None) -> str:
    """Return the switch's end of a node's cable to a rail, or to the management network."""
    return f"n{node.number}-{BRIDGE if rail is None else rail_name(rail)}"
