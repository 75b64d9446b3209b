"""Every RDMA card has a GPU on its side of the machine.

What
----
In `nvidia-smi topo -m`, the card of each rail has a relation nearer than SYS to at least one GPU: PIX or PXB (PCIe
switches only), PHB or NODE (the same socket). A node built for rails, with an RDMA card for each of its GPUs (four or
more, or any behind PCIe switches), needs PIX or PXB, and the card of a rail is next to the same GPU on all nodes.

Why
---
SYS means that every byte between GPU and card crosses the link between two sockets. That link is shared and slower, and
GPUDirect RDMA across it often falls far below the speed of the rail, so this node holds up every all-reduce. In a
cluster built for rails, GPU i talks to GPU i of the other nodes over rail i. Through a host bridge, or from another
GPU's card, its data crosses the processor twice or the switches of two rails.

Fix
---
Move the card to a slot of the socket that has the GPUs (the mainboard's manual shows which slots). If the card must
stay, bind the ranks to GPUs on its side. If a rail's card is next to different GPUs, connect the ports to the switches
in the order of the GPUs on every node, or correct `rail` of the ports in the cluster file.

Source
------
nvidia-smi(1), `topo -m` legend; NCCL user guide, NCCL_NET_GDR_LEVEL (from PIX to SYS); Juniper validated design,
"Rail Optimized Fabric" (rail N connects the GPUs in position N of all servers).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import by_value, gpu_obstacle, no_rdma, rdma_devices
from railbed.probes import gpu, gpu_topology
from railbed.rules.judgement import Judgement, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "a GPU on the same socket"
NEXT_TO = "a GPU behind the same PCIe switch"
ALIKE = "next to the same GPU on all nodes"
NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE")
BEHIND_SWITCHES = ("PIX", "PXB")
MANY_CARDS = 4
"""A node with so many GPUs, and a card for each, is built for rails."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Find the GPU nearest to the port's card."""
    obstacle = gpu_obstacle(port.read(gpu.PROBE), EXPECTED)
    if obstacle:
        yield obstacle
        return
    card = port.port.rdma or ""
    relations = port.read(gpu_topology.PROBE).gpus_of(card)
    if not relations:
        yield unknown(expected=EXPECTED, observed=f"nvidia-smi does not list {card}")
        return
    yield _judge_rail(port, card, relations) if _is_built_for_rails(port) else _judge_relations(card, relations)


def _judge_relations(card: str, relations: dict[str, str]) -> Judgement:
    for relation in NEAR_TO_FAR:
        near = [name for name, value in relations.items() if value == relation]
        if near:
            return ok(expected=EXPECTED, observed=f"{card} is {relation} to {', '.join(near)}")
    far = ", ".join(sorted(set(relations.values())))
    return warn(expected=EXPECTED, observed=f"{card} is {far} to every GPU")


def _is_built_for_rails(port: PortView) -> bool:
    """Whether the node has a card for each of several GPUs, and PCIe switches to put them behind."""
    gpus, cards = port.read(gpu.PROBE).gpus, rdma_devices(port.node)
    if len(gpus) < 2 or len(set(cards)) != len(gpus):
        return False
    topology = port.read(gpu_topology.PROBE)
    return len(gpus) >= MANY_CARDS or any(_neighbours(topology.gpus_of(card)) for card in cards)


def _neighbours(relations: dict[str, str]) -> tuple[str, ...]:
    """Return the GPUs that are behind the same PCIe switches as a card, only the nearest of them."""
    for relation in BEHIND_SWITCHES:
        near = tuple(sorted(name for name, value in relations.items() if value == relation))
        if near:
            return near
    return ()


def _judge_rail(port: PortView, card: str, relations: dict[str, str]) -> Judgement:
    own = _neighbours(relations)
    if not own:
        far = ", ".join(sorted(set(relations.values())))
        return warn(expected=NEXT_TO, observed=f"{card} is {far} to every GPU")
    elsewhere = {peer.node.name: near for peer in port.peers if (near := _neighbours_of(peer))}
    others = {node: near for node, near in elsewhere.items() if not set(near) & set(own)}
    observed = f"{card} is {relations[own[0]]} to {', '.join(own)}"
    if len(others) * 2 > len(elsewhere):
        return warn(
            expected=ALIKE,
            observed=f"{observed}; on {port.port.rail}, {by_value({node: near[0] for node, near in others.items()})}",
        )
    return ok(expected=NEXT_TO, observed=observed)


def _neighbours_of(port: PortView) -> tuple[str, ...]:
    topology = port.node.try_read(gpu_topology.PROBE)
    return _neighbours(topology.gpus_of(port.port.rdma or "")) if topology else ()


RULE = Rule(
    name="gpu_nic_affinity",
    title="each RDMA card has a GPU on its socket",
    scope="RDMA port",
    stage="BIOS",
    needs=(gpu.PROBE, gpu_topology.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
