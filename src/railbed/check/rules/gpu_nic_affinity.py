"""Every RDMA card has a GPU on its side of the machine.

What
----
In `nvidia-smi topo -m`, the card of each rail has a relation nearer than SYS to at least one GPU: PIX or PXB (PCIe
switches only), PHB or NODE (the same socket).

Why
---
SYS means that every byte between GPU and card crosses the link between two sockets. That link is shared and slower, and
GPUDirect RDMA across it often falls far below the speed of the rail, so this node holds up every all-reduce.

Fix
---
Move the card to a slot of the socket that has the GPUs (the mainboard's manual shows which slots). If the card must
stay, bind the ranks to GPUs on its side.

Source
------
nvidia-smi(1), `topo -m` legend; NCCL user guide, NCCL_NET_GDR_LEVEL (from PIX to SYS).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import gpu_obstacle, no_rdma
from railbed.probes import gpu, gpu_topology
from railbed.rules.judgement import Judgement, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "a GPU on the same socket"
NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE")


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
    yield _judge_relations(card, relations)


def _judge_relations(card: str, relations: dict[str, str]) -> Judgement:
    for relation in NEAR_TO_FAR:
        near = [name for name, value in relations.items() if value == relation]
        if near:
            return ok(expected=EXPECTED, observed=f"{card} is {relation} to {', '.join(near)}")
    far = ", ".join(sorted(set(relations.values())))
    return warn(expected=EXPECTED, observed=f"{card} is {far} to every GPU")


RULE = Rule(
    name="gpu_nic_affinity",
    title="each RDMA card has a GPU on its socket",
    scope="port",
    stage="BIOS",
    needs=(gpu.PROBE, gpu_topology.PROBE),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
)
