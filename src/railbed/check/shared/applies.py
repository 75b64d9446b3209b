"""Whether rules about RDMA and GPUs apply to a node."""

from __future__ import annotations

from railbed.check.site import NodeView
from railbed.probes.gpu import Gpus
from railbed.rules.judgement import Judgement, skip, unknown

NO_GPU = "no NVIDIA GPU"


def rdma_devices(node: NodeView) -> tuple[str, ...]:
    """Return the RDMA devices that the cluster file gives a node."""
    return tuple(port.rdma for port in node.node.ports if port.rdma)


def gpu_obstacle(gpus: Gpus, expected: str) -> Judgement | None:
    """Explain why GPUs cannot be judged: there is none, or the driver does not show it (see `gpu_driver`)."""
    if gpus.none_here:
        return skip(NO_GPU)
    if not gpus.gpus:
        return unknown(
            expected=expected, observed="the driver shows no GPU; see gpu_driver", evidence=gpus.problem or ""
        )
    return None
