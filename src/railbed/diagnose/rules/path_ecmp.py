"""Flows of several nodes share an uplink while others are idle.

What
----
Of a switch's busy uplinks (its ports without a node), one carries at least three times as much as the median of the
others for ten seconds, and nothing is paused.

Why
---
ECMP chooses the uplink by a hash of addresses and ports. Training has few, large flows: if the hash puts two on one
link, both have half the bandwidth while others are idle. Counters of errors show nothing.

Fix
---
Give the hash more to work with: more queue pairs per connection (`NCCL_IB_QPS_PER_CONNECTION`; `railbed train
--show-env` prints what the job sets), the destination queue pair in the switch's hash, or adaptive routing.

Source
------
Gangidi et al., RDMA over Ethernet for Distributed AI Training at Meta Scale, SIGCOMM 2024.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.diagnose.shared.compare import grew
from railbed.model.cabling import port_key
from railbed.model.text import size
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import NotJudged, Rule
from railbed.rules.signal import Signal
from railbed.rules.site import SwitchView

RATIO = 3.0
"""A hash of few flows gives twice as much by chance."""
BUSY = 1e8
"""Bytes per second."""
LEAST_SECONDS = 10.0


def judge(switch: SwitchView) -> Iterator[Judgement]:
    """Compare the uplinks of a switch with each other."""
    to_nodes = {port_key(port.port.name) for port in switch.ports}
    sent = switch.on_ports("switch_tx_bytes")
    uplinks = {name: signal for name, signal in sent.items() if port_key(name) not in to_nodes}
    if len(uplinks) < 2:
        raise NotJudged(f"{switch.name} has fewer than two sampled ports without a node")
    for name, signal in uplinks.items():
        others = [np.interp(signal.times, other.times, other.values) for key, other in uplinks.items() if key != name]
        usual = np.median(np.array(others), axis=0)
        busy = (signal.values > BUSY) & (signal.values > RATIO * usual)
        for span in signal.where(busy, least=LEAST_SECONDS):
            if not _has_paused(switch, span):
                yield warn(
                    f"sent {size(signal.mean(span))}/s, the other uplinks {size(_mean(uplinks, name, span))}/s",
                    signal,
                    span=span,
                    subject=f"{switch.name}/{name}",
                    certainty="possible",
                    expected="uplinks carry about the same",
                )


def _mean(uplinks: dict[str, Signal], name: str, span: Span) -> float:
    others = [signal.mean(span) for key, signal in uplinks.items() if key != name]
    return float(np.mean(others))


def _has_paused(switch: SwitchView, span: Span) -> bool:
    return any(grew(signal, span) for signal in switch.on_ports("switch_pause_tx_frames").values())


RULE = Rule(
    name="path_ecmp",
    title="flows share an uplink",
    scope="switch",
    needs=("switch_tx_bytes",),
    judge=judge,
    doc=__doc__,
)
