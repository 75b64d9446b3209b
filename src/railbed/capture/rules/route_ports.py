"""All connections of a path share one UDP source port.

What
----
Several connections between two nodes send with the same UDP source port.

Why
---
Switches choose one of several equal links by a hash of addresses and ports. With one source port, all connections
take the same link, and the others stay idle. On a rail with a single switch it makes no difference.

Fix
---
Use a card and driver that derive the port from the queue pair (ConnectX with rdma-core 29 or newer does), let the
switch hash on the queue pair (`show port-channel load-balance`), or raise `NCCL_IB_QPS_PER_CONNECTION` and set
`NCCL_IB_SPLIT_DATA_ON_QPS`.

Source
------
Linux kernel, rdma_get_udp_sport; Gangidi et al., SIGCOMM 2024 (RDMA over Ethernet at scale).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Absent, Rule

LEAST_CONNECTIONS = 4


def judge(path: PathView) -> Iterator[Judgement]:
    """Count the source ports of connections."""
    flows = path.connections
    if len(flows) < LEAST_CONNECTIONS:
        raise Absent(f"fewer than {LEAST_CONNECTIONS} connections from {path.sender} to {path.receiver}")
    firsts = [(flow.main, flow.main.view.requests.rows[:1]) for flow in flows]
    ports = {int(view.view.column("source_port", rows)[0]) for view, rows in firsts if len(rows)}
    if len(ports) == 1 and ports != {0}:
        rows = np.concatenate([rows for view, rows in firsts if view.recording is firsts[0][0].recording])
        yield warn(
            f"{len(flows)} connections share the UDP source port {ports.pop()}",
            proof_of(firsts[0][0], rows, "the first of each connection"),
            certainty="possible",
            expected="a port for each connection",
        )


RULE = Rule(
    name="route_ports",
    title="connections share a UDP source port",
    scope="path",
    judge=judge,
    doc=__doc__,
)
