"""A recording is cut or damaged.

What
----
The file ends in the middle of a packet, or cannot be read further than to some byte. What precedes that is judged.

Why
---
What followed is missing, and nobody knows how much it was: a loss or a pause there goes unnoticed, and counts are lower
bounds.

Fix
---
Copy the file again if the original is complete; otherwise record again: `railbed capture`. A file is cut if tcpdump is
killed rather than interrupted, if its disk fills up (`railbed check disk_space`), or if copying it was interrupted.

Source
------
pcap-savefile(5); pcapng specification, section 3.1 (total length of blocks).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.subjects import RecordingView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Read how far the file could be read."""
    if defect := view.recording.defect:
        yield warn(defect, certainty="certain", expected="a complete file")


RULE = Rule(
    name="recorder_cut",
    title="a recording is cut or damaged",
    scope="recording",
    judge=judge,
    doc=__doc__,
)
