"""An RDMA connection was given up: the peer is dead or out of reach.

What
----
A card gave up connections after all retries, or its acknowledgements kept timing out until it received nothing more.

Why
---
NCCL ends with "status 12" (retries exceeded), the whole job stops and starts again from its last checkpoint.

Fix
---
Look at the node named here at that time: was it down, frozen, or without a route? `railbed check reachable rail_route
rdma_port_active mtu_path` now, and the switch's log for its port.

Source
------
NVIDIA, local_ack_timeout_err, req_transport_retries_exceeded; NCCL, NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import describe_growth, growths, measured_signals
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

MANY_TIMEOUTS = 10
"""More than NCCL's seven retries of one connection."""
STOPPED = 0.01
"""Share of what a port received before."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Read retries and time-outs, and look for a peer that stopped receiving."""
    exceeded, timeouts = port.try_signal("rdma_retries_exceeded"), port.try_signal("rdma_timeouts")
    signals = measured_signals(port, ("rdma_retries_exceeded", "rdma_timeouts"), exceeded, timeouts)
    for span, grown in growths(signals):
        gave_up = exceeded in grown
        if not gave_up and (
            exceeded is not None or not _has_stopped(port, span) or grown[0].total(span) < MANY_TIMEOUTS
        ):
            continue
        silent = [peer.node.name for peer in port.peers if _has_stopped(peer, span)]
        peer = f"; {silent[0]} stopped receiving" if len(silent) == 1 else ""
        yield fail(
            f"{describe_growth(grown, span)}{peer}",
            *grown,
            span=span,
            certainty="certain" if gave_up else "likely",
            expected="peers acknowledge what they receive",
        )


def _has_stopped(port: PortView, span: Span) -> bool:
    """Whether a port received RDMA before, and no more from this time on."""
    received = port.try_signal("rdma_rx_bytes")
    if received is None:
        return False
    before, after = (
        received.mean(Span(0.0, span.start)),
        received.mean(Span(span.end - received.interval, span.end + 10)),
    )
    return before > 0 and not after > STOPPED * before


RULE = Rule(
    name="path_peer_dead",
    title="an RDMA connection was given up",
    scope="port",
    needs=("rdma_retries_exceeded", "rdma_timeouts"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("node_frozen", "node_cut", "path_mtu", "path_gid"),
)
