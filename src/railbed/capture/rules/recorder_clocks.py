"""The clocks of recordings could not be aligned.

What
----
Recordings have packets in common, but too few to align their clocks, or only in one direction; or the clocks agree
only to more than a millisecond.

Why
---
Which of two nodes did something first, how long packets took, and whether several senders met at a moment, can only
be said if the clocks agree.

Fix
---
Let a time service set the clocks (`railbed check clock_synchronised clock_offset`), record both directions, and
record for longer.

Source
------
Moon, Skelly, Towsley, INFOCOM 1999: clock skew from the smallest delays.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.subjects import ClusterView
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule

MOST_ERROR = 1_000_000
"""Nanoseconds."""


def judge(cluster: ClusterView) -> Iterator[Judgement]:
    """Look at the error of each clock."""
    analysis = cluster.analysis
    filled = [
        (recording, clock)
        for recording, clock in zip(analysis.recordings, analysis.clocks, strict=True)
        if len(recording.packets)
    ]
    if len(filled) < 2:
        raise NotJudged("there are no two recordings to compare")
    for recording, clock in filled:
        if clock.error is None:
            yield warn(
                "the clock could not be aligned: no packets in both directions are in this and another recording",
                certainty="certain",
                expected="aligned clocks",
                subject=recording.name,
            )
        elif clock.error > MOST_ERROR:
            yield warn(
                f"the clock is aligned only to ±{duration(clock.error / 1e9)}",
                certainty="certain",
                expected=f"to ±{duration(MOST_ERROR / 1e9)}",
                subject=recording.name,
            )


RULE = Rule(
    name="recorder_clocks",
    title="clocks could not be aligned",
    scope="cluster",
    judge=judge,
    doc=__doc__,
)
