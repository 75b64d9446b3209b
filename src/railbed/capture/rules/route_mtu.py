"""Packets are smaller than the path allows.

What
----
Full RDMA packets between two nodes hold fewer bytes than the MTU of the interfaces allows, or than those of other
paths.

Why
---
Connections agree on the smaller path MTU of both ends. With 1024 instead of 4096 bytes, four times as many packets
pass the card, and the rate of small-packet cards drops.

Fix
---
Set the same MTU on both nodes and the switch: `railbed check mtu mtu_path rdma_mtu switch_mtu`; 4096 needs an MTU of
at least 4200, usually 9000.

Source
------
Linux kernel, ib_mtu of Ethernet devices (the largest of 256 to 4096 that fits with headers).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.sequence import PATH_SIZES
from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Absent, Rule

HEADERS = 76
"""Bytes of IPv6, UDP and RDMA headers and the ICRC next to the payload."""


def judge(path: PathView) -> Iterator[Judgement]:
    """Compare full packets with the MTU, or with those of the other paths."""
    measured = [(flow, flow.path_size) for flow in path.flows if flow.path_size and flow.main.payload]
    if not measured:
        raise Absent(f"no message from {path.sender} to {path.receiver} is larger than a packet")
    flow, smallest = min(measured, key=lambda pair: pair[1])
    expected, reason = _expect(path)
    if smallest < expected:
        yield warn(
            f"full packets hold {smallest:,} bytes",
            proof_of(flow.main, flow.main.view.rows[:1], "first of the flow"),
            certainty="certain",
            expected=f"{expected:,} bytes, {reason}",
        )


def _expect(path: PathView) -> tuple[int, str]:
    places = [path.context.place(address) for address in (path.source, path.destination)]
    limits = [place.mtu for place in places if place and place.mtu]
    if limits:
        fitting = [size for size in PATH_SIZES if size + HEADERS <= min(limits)]
        return max(fitting, default=0), f"with an MTU of {min(limits):,}"
    others = [flow.path_size for flow in path.analysis.flows if flow.path_size]
    return max(others), "as on other paths"


RULE = Rule(
    name="route_mtu",
    title="packets are smaller than the path allows",
    scope="path",
    judge=judge,
    doc=__doc__,
)
