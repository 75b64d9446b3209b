"""The wrong priority is paused.

What
----
Pause frames are for a priority that is not the lossless one, or stop all of them (802.3x). They are MAC control frames,
which end at the port that receives them: a card's sniffer or a mirror port rarely shows any, and a recording without
them does not mean that nothing was paused.

Why
---
Both ends of a cable must pause the same priority. If they do not, RDMA is not protected, and other traffic (SSH,
heartbeats, storage) stops instead.

Fix
---
`railbed check pfc cable_pfc switch_pfc global_pause`, `railbed configure`. What was paused without a frame in
the recording is in the counters: `railbed watch`, `railbed diagnose`.

Source
------
IEEE 802.1Qbb (PFC), 802.3 annex 31B (pause).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.rules.pausing_storm import no_frames, proof
from railbed.capture.subjects import RecordingView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule

LEAST_FRAMES = 3


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Compare the paused priorities with the expected one."""
    expected = view.context.priority
    paused = [pause for pause in view.analysis.pauses if pause.recording is view.recording]
    if not paused:
        raise NotJudged(no_frames(view))
    if expected is None:
        raise NotJudged("without a cluster file, no priority is expected")
    for pause in paused:
        if pause.priority != expected and pause.stops >= LEAST_FRAMES:
            which = "all priorities (802.3x)" if pause.priority is None else f"priority {pause.priority}"
            yield fail(
                f"{pause.sender} paused {which} with {pause.stops:,} frames",
                proof(pause, view),
                certainty="certain",
                expected=f"priority {expected}",
            )


RULE = Rule(
    name="pausing_priority",
    title="the wrong priority is paused",
    scope="recording",
    judge=judge,
    doc=__doc__,
)
