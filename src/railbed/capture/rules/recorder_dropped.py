"""A recorder dropped packets.

What
----
The recorder counted packets that it could not write.

Why
---
Every other verdict is about the packets that were recorded. What is missing may be exactly what matters: verdicts
that nothing is wrong are incomplete, and counts are lower bounds.

Fix
---
Record fewer bytes of each packet (`railbed capture --snap 96`), fewer ports or a shorter time, to a faster disk;
close busy programs on that node.

Source
------
packet(7), PACKET_STATISTICS (tp_drops); pcapng specification, isb_ifdrop.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.subjects import RecordingView
from railbed.model.text import plural
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Read what the recorder counted."""
    recording = view.recording
    if recording.dropped:
        yield warn(
            f"the recorder dropped {plural(recording.dropped, 'packet')} of "
            f"{recording.dropped + recording.total:,}: the verdict is incomplete",
            certainty="certain",
            expected="every packet is recorded",
        )
    elif recording.dropped is None:
        raise NotJudged(f"nobody counted what the recorder of {recording.name} dropped")


RULE = Rule(
    name="recorder_dropped",
    title="a recorder dropped packets",
    scope="recording",
    judge=judge,
    doc=__doc__,
)
