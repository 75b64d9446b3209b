"""RDMA does not get through: a wrong GID.

What
----
A port sent RDMA packets all the time and received none, with time-outs, or the run's own check had found a GID that is
not RoCE v2, or an index that differs between nodes.

Why
---
A GID of RoCE v1, or of the link-local address, gives packets that no router forwards and that the other end does not
expect. Connections hang instead of failing at once, and the job ends by time-out.

Fix
---
Use the index of the IPv4 GID of RoCE v2 on every node (`railbed check gid_rocev2 gid_index_equal`; `NCCL_IB_GID_INDEX`,
UCX_IB_GID_INDEX as in `railbed train --show-env`). Index 3 is usual, not guaranteed.

Source
------
perftest issue 44, ucx issue 4512; Linux sysfs, infiniband gid_attrs/types.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.model.record import Verdict
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

LEAST_PACKETS = 10
"""Sent before a connection is given up."""
FEW = 0.01
"""Received per packet sent: over a working connection, acknowledgements come back."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Find a port that sends and never receives."""
    sent, received = port.signal("rdma_tx_packets"), port.signal("rdma_rx_packets")
    timeouts = port.try_signal("rdma_timeouts")
    if sent.total() < LEAST_PACKETS or received.total() > FEW * sent.total():
        return
    first, *_, last = sent.above(0.0) * 2
    span = Span(first.start, last.end)
    complaints = [
        finding
        for finding in port.site.run.wrong("gid_rocev2", "gid_index_equal")
        if finding.subject.partition("/")[0] in (port.node.name, port.port.rail, "cluster")
        # A rail whose cards have only RoCE v1 works with it: `gid_rocev2` warns of what that lacks.
        if (finding.check, finding.verdict) != ("gid_rocev2", Verdict.WARN)
    ]
    if not complaints and not grew(timeouts, span):
        return
    reason = f"; its check had found: {complaints[0].observed}" if complaints else "; acknowledgements timed out"
    yield fail(
        f"sent {sent.total(span):,.0f} RDMA packets and received {received.total(span):,.0f}{reason}",
        sent,
        received,
        span=span,
        certainty="certain" if complaints else "possible",
        expected="RDMA packets in both directions",
    )


RULE = Rule(
    name="path_gid",
    title="RDMA does not get through",
    scope="port",
    needs=("rdma_tx_packets", "rdma_rx_packets"),
    judge=judge,
    doc=__doc__,
    yields_to=("node_cut", "link_flap", "path_mtu"),
)
