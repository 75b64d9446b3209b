"""What rules over RDMA ports share: finding the port among the facts."""

from __future__ import annotations

from railbed.probes import infiniband
from railbed.probes.infiniband import RdmaDevice, RdmaPort
from railbed.rules.judgement import Judgement, unknown
from railbed.rules.site import PortView


def rdma_name(port: PortView) -> str:
    """Return `device/port`, as the cluster file has it."""
    return f"{port.port.rdma}/{port.port.rdma_port}"


def rdma_device(port: PortView) -> RdmaDevice | None:
    """Return the port's RDMA device from sysfs, or None if it does not exist or sysfs was not read."""
    facts = port.node.try_read(infiniband.PROBE)
    return facts.devices.get(port.port.rdma or "") if facts else None


def rdma_port(port: PortView) -> RdmaPort | None:
    """Return the RDMA port from sysfs, or None if the machine has none; unread facts end as unknown."""
    device = port.read(infiniband.PROBE).devices.get(port.port.rdma or "")
    return device.ports.get(str(port.port.rdma_port)) if device else None


def not_there(port: PortView, expected: str) -> Judgement:
    """Leave a missing device to the rule `rdma_device`."""
    return unknown(expected=expected, observed=f"no {rdma_name(port)} on this node: see rdma_device")
