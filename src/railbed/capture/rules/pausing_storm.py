"""A port is paused for much of the time.

What
----
Pause frames stop a priority for a tenth of the recorded time, or for ten milliseconds without a break. They are MAC
control frames, which end at the port that receives them: a card's sniffer or a mirror port rarely shows any, and a
recording without them does not mean that nothing was paused.

Why
---
A paused port pauses those that send to it: one slow receiver, or one broken card, stops whole rails. Watchdogs of
switches then drop the queue.

Fix
---
Find the sender of the frames by its MAC address (`railbed check cabling`, `show mac address-table`): a node that
sends them is a slow receiver (`railbed diagnose`, rules pause_slow_receiver and pause_pcie); a switch passes on
congestion. Turn on the watchdog: `railbed check switch_watchdog`. What was paused without a frame in the recording is
in the counters: `railbed watch`, `railbed diagnose`.

Source
------
IEEE 802.3, annex 31B (MAC control frames are not forwarded); IEEE 802.1Qbb; Guo et al., SIGCOMM 2016 (pause storms).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.pauses import Paused
from railbed.capture.proof import PacketProof
from railbed.capture.subjects import RecordingView
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule

LEAST_SHARE = 0.1
LEAST_SECONDS = 0.01
LEAST_FRAMES = 10


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Compare the paused time with the recorded time."""
    paused = [pause for pause in view.analysis.pauses if pause.recording is view.recording]
    if not paused:
        raise NotJudged(no_frames(view))
    for pause in paused:
        share = pause.seconds / view.seconds if view.seconds else 0.0
        if pause.stops >= LEAST_FRAMES and (share >= LEAST_SHARE or pause.longest >= LEAST_SECONDS):
            which = "all priorities" if pause.priority is None else f"priority {pause.priority}"
            yield fail(
                f"{pause.sender} paused {which} for {duration(pause.seconds)} ({share:.0%} of the time), "
                f"{duration(pause.longest)} at once, with {pause.stops:,} frames",
                proof(pause, view),
                certainty="certain" if pause.exact else "possible",
                expected=f"less than {LEAST_SHARE:.0%} of the time",
            )


def no_frames(view: RecordingView) -> str:
    """Return why pauses are not judged by a recording without such frames, and what counts them."""
    return (
        f"{view.recording.name} has no pause frames, which a card's sniffer or a mirror port rarely shows: "
        "`railbed watch` counts them"
    )


def proof(pause: Paused, view: RecordingView) -> PacketProof:
    """Return pause frames as proof."""
    offset = view.analysis.clock_of(view.recording).offset
    start, end = ((time - offset) / 1e9 for time in (pause.first, pause.last))
    return PacketProof(
        view.recording.name, view.recording.file, pause.numbers, pause.frames, start, end, "pause frames"
    )


RULE = Rule(
    name="pausing_storm",
    title="a port is paused for much of the time",
    scope="recording",
    judge=judge,
    doc=__doc__,
)
