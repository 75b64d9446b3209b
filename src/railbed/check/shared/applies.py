"""Whether rules apply: to what the cluster file says of a subject, or to the GPUs of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from railbed.model.cluster import Policy
from railbed.probes.gpu import Gpus
from railbed.rules.judgement import Judgement, skip, unknown
from railbed.rules.site import NodeView, PortView

S = TypeVar("S")
NO_GPU = "no NVIDIA GPU"
NO_RDMA = "no RDMA device in the cluster file"


class Governed(Protocol):
    """A subject to which the lossless policy applies."""

    @property
    def policy(self) -> Policy: ...


def first_of(*reasons: Callable[[S], str]) -> Callable[[S], str]:
    """Return a function that gives the first reason not to judge a subject."""
    return lambda subject: next(filter(None, (reason(subject) for reason in reasons)), "")


def no_rdma(port: PortView) -> str:
    """Return why a rule about RDMA does not apply to a port."""
    return NO_RDMA if port.port.rdma is None else ""


def no_rdma_on_node(node: NodeView) -> str:
    """Return why a rule about RDMA does not apply to a node."""
    return "" if rdma_devices(node) else NO_RDMA


def no_port(node: NodeView) -> str:
    """Return why a rule about rails does not apply to a node."""
    return "" if node.node.ports else "no port on a rail"


def no_peer(port: PortView) -> str:
    """Return why a rule about peers does not apply to a port."""
    peers = port.node.site.cluster.peers(port.node.name, port.port)
    return "no peer on this rail" if next(iter(peers), None) is None else ""


def no_pfc(subject: Governed) -> str:
    """Return why a rule about pauses does not apply."""
    return "" if subject.policy.pfc else "the policy has PFC off"


def no_ecn(subject: Governed) -> str:
    """Return why a rule about marks and notifications does not apply."""
    return "" if subject.policy.ecn else "the policy has ECN off"


def no_lossless(subject: Governed) -> str:
    """Return why a rule about the lossless priority does not apply."""
    return "" if subject.policy.pfc or subject.policy.ecn else "the policy has PFC and ECN off"


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
