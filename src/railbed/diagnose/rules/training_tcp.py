"""Training fell back to TCP.

What
----
The cluster has RDMA devices, but the rails carried the gradients as TCP: the run's own proof says so, or interfaces
sent megabytes per second while their RDMA ports stood still.

Why
---
TCP needs processor time for every byte and reaches a part of the bandwidth. NCCL and UCX fall back silently if they
find no usable device, and training is merely slow.

Fix
---
`railbed check --prove training` shows what carries gradients and why; `railbed check rdma_device rdma_port_active
memlock` finds the usual reasons.

Source
------
NCCL ("NET/IB : No device found", "via NET/Socket"); nccl issue 952; docs/rdma-training.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.text import size
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule, Unsampled
from railbed.rules.site import PortView, Site

PROOF = "gradients_over_rdma"
BUSY = 1e6
"""Bytes per second over TCP."""
LEAST_SECONDS = 10.0
MOST_RDMA = 0.01
"""Bytes over RDMA per byte over TCP: connection set-up alone moves a few."""


def judge(site: Site) -> Iterator[Judgement]:
    """Read the run's own proof; without it, compare the interface with its RDMA port."""
    ports = [port for node in site.nodes for port in node.ports if port.port.rdma]
    if not ports:
        raise NotJudged("the cluster file has no RDMA device")
    for finding in site.run.wrong(PROOF):
        yield fail(finding.observed, certainty="certain", subject=finding.subject, expected="gradients over RDMA")
        return
    measured = [port for port in ports if port.try_signal("net_tx_bytes") and port.try_signal("rdma_tx_bytes")]
    if not measured:
        raise Unsampled("rdma_tx_bytes", "any port")
    for port in measured:
        yield from _judge_port(port)


def _judge_port(port: PortView) -> Iterator[Judgement]:
    tcp, rdma = port.signal("net_tx_bytes"), port.signal("rdma_tx_bytes")
    for span in tcp.above(BUSY, least=LEAST_SECONDS):
        if rdma.total(span) <= MOST_RDMA * tcp.total(span):
            yield fail(
                f"sent {size(tcp.total(span))} over TCP and {size(rdma.total(span))} over RDMA",
                tcp,
                rdma,
                span=span,
                subject=port.subject,
                expected="gradients over RDMA",
            )


RULE = Rule(
    name="training_tcp",
    title="training fell back to TCP",
    scope="cluster",
    needs=("net_tx_bytes", "rdma_tx_bytes"),
    judge=judge,
    doc=__doc__,
)
