"""The reader as a program for nodes, and its first line of input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from railbed.fleet.node_program import NodeProgram
from railbed.fleet.sample import node
from railbed.parsing.counters import ETHTOOL, RDMA

READER = NodeProgram(
    purpose="sampling",
    package="railbed.fleet.sample.node",
    folder=Path(node.__file__).parent,
    modules=(
        "group",
        "files",
        "ethtool",
        "qdisc",
        "sockets",
        "peers",
        "owners",
        "traffic",
        "nvml",
        "reader",
    ),
    shared=("railbed.transport.netlink",),
    only_with={"nvml": "/proc/driver/nvidia"},
)


def order(interval: float, ports: Sequence[str], peers: Sequence[str] = (), training: str = "") -> bytes:
    """Return the first line of input: how often to sample, which interfaces, peers, counters, and training's folder."""
    wanted = {
        "interval_us": round(interval * 1e6),
        "ports": list(ports),
        "peers": list(peers),
        "rdma": list(RDMA),
        "ethtool": list(ETHTOOL),
        "training": training,
    }
    return json.dumps(wanted, separators=(",", ":")).encode() + b"\n"
