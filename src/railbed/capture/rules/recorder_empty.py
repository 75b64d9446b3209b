"""Nothing was recorded.

What
----
A recording has no RDMA packet. If other recordings show packets from or to this port, it did have traffic.

Why
---
RDMA cards bypass the kernel: a normal recorder on the network interface sees none of their packets, and an empty file
looks like a quiet network.

Fix
---
On ConnectX-4 and newer, record the RDMA device (`railbed capture` chooses it; `tcpdump -i mlx5_0` with libpcap 1.9 or
newer), or set `ethtool --set-priv-flags NAME sniffer on` with old drivers. Other cards: mirror the port on the switch
and read the file with `railbed capture --from FILE`.

Source
------
tcpdump and libpcap 1.9 (RDMA sniffer); NVIDIA, offloaded traffic sniffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.views import own_addresses
from railbed.capture.subjects import RecordingView
from railbed.model.text import plural
from railbed.rules.judgement import Judgement, fail, warn
from railbed.rules.rule import Rule


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Look for any RDMA packet, here and about this port elsewhere."""
    if view.flows:
        return
    own = own_addresses(view.recording, view.context)
    elsewhere = [flow for flow in view.analysis.flows if own & {flow.key.source, flow.key.destination}]
    among = f"no RDMA packet among {plural(view.recording.total, 'packet')}"
    if elsewhere:
        count = sum(len(flow.main.view.rows) for flow in elsewhere)
        yield fail(
            f"{among}, though other recordings show {plural(count, 'packet')} of it: the card bypasses the kernel",
            certainty="certain",
            expected="the RDMA packets of this port",
        )
    else:
        yield warn(
            f"{among}: there was no RDMA traffic, or the card bypasses the kernel",
            certainty="possible",
            expected="the RDMA packets of this port",
        )


RULE = Rule(
    name="recorder_empty",
    title="nothing was recorded",
    scope="recording",
    judge=judge,
    doc=__doc__,
)
