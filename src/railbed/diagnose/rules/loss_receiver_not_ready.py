"""A receiver had no buffer posted.

What
----
Packets were refused or dropped because the receiving application had not posted a buffer for them.

Why
---
The sender waits and tries again, each time for milliseconds: the all-reduce crawls although network and cards are
fine. The cause is software: an overloaded process, or a library with too few receive buffers.

Fix
---
Look at the processor of the node at that time: `railbed watch RUN`. With NCCL, update it; with UCX or an application of
your own, post more receive buffers, or share them (SRQ). `railbed check rdma_errors` shows whether it goes on.

Source
------
NVIDIA, rnr_nak_retry_err (counted by the sender), out_of_buffer (counted by the receiver).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import describe_growth, growths, measured_signals
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

LEAST_PACKETS = 100
"""A few are normal while ranks connect."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Read the counters of both roles."""
    refused, dropped = port.try_signal("rdma_receiver_not_ready"), port.try_signal("rdma_out_of_buffer")
    for span, grown in growths(measured_signals(port, ("rdma_out_of_buffer",), refused, dropped), least=LEAST_PACKETS):
        own = dropped in grown
        whose = "this node had no receive buffers posted" if own else "a node that this one sends to had none posted"
        yield warn(
            f"{describe_growth(grown, span)}: {whose}",
            *grown,
            span=span,
            certainty="certain" if own else "likely",
            expected="receivers post buffers in time",
        )


RULE = Rule(
    name="loss_receiver_not_ready",
    title="a receiver had no buffers",
    scope="port",
    needs=("rdma_out_of_buffer", "rdma_receiver_not_ready"),
    judge=judge,
    doc=__doc__,
)
