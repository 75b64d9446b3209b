"""Which ports are on InfiniBand: most rules are about Ethernet, and some about InfiniBand alone."""

from __future__ import annotations

from railbed.check.shared.port import rdma_device
from railbed.rules.site import PortView

INFINIBAND = "InfiniBand"


def on_infiniband(port: PortView) -> bool:
    """Whether the port's link layer is InfiniBand, as far as it was read."""
    device = rdma_device(port)
    own = device.ports.get(str(port.port.rdma_port)) if device else None
    return own is not None and own.link_layer == INFINIBAND
