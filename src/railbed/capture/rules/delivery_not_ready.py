"""A receiver was not ready.

What
----
A receiver refused packets because the application had posted no buffer for them (RNR NAK), and made the sender wait.

Why
---
The sender waits for the time that the receiver names, up to 655 ms, and repeats. Network and cards are fine; the
receiving process is too slow, or posts too few buffers.

Fix
---
Look at the processor of the named node. With NCCL, update it; with UCX or an own application, post more receive
buffers, or share them (SRQ). `railbed diagnose` shows whether the node was busy.

Source
------
InfiniBand architecture, 9.7.5.2.8 (RNR NAK, timer codes).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.answers import NOT_READY
from railbed.capture.proof import proof_from
from railbed.capture.subjects import PathView
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule

LEAST_REFUSALS = 3


def judge(path: PathView) -> Iterator[Judgement]:
    """Count the refusals in the recording of each flow that shows the most of them."""
    refused = []
    for flow in path.connections:
        answers = [(view, view.answers) for view in flow.views if view.answers and NOT_READY in view.answers.refusals]
        refused += [max(answers, key=lambda pair: pair[1].refusals[NOT_READY])] if answers else []
    count = sum(answers.refusals[NOT_READY] for _, answers in refused)
    if count >= LEAST_REFUSALS:
        longest = max(answers.longest_wait for _, answers in refused)
        yield warn(
            f"{count:,} packets from {path.sender} were refused: no receive buffer; the sender waits up to "
            f"{duration(longest)} each time",
            *(
                proof_from(view.recording, view.clock, answers.rows_of(NOT_READY), "RNR NAK")
                for view, answers in refused[:2]
            ),
            certainty="certain",
            expected="receivers post buffers in time",
            subject=path.context.port(path.destination),
        )


RULE = Rule(
    name="delivery_not_ready",
    title="a receiver was not ready",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
)
