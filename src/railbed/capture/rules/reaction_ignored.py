"""Notifications arrive, but the sender does not slow down.

What
----
A sender gets congestion notifications (CNP) about a flow, and its rate stays what it was before. Only notifications
after a time without any are judged: in between, the rate before is not known. A few are not enough if the sender uses
less than half its link: they limit it to a rate that it does not reach.

Why
---
DCQCN works only if senders react. If they do not, congestion ends in pauses for everybody, or in loss.

Fix
---
Turn DCQCN on at the sender (the reaction point): `railbed check dcqcn`, `railbed configure`. If the card counts
ignored notifications, `railbed watch` shows `rp_cnp_ignored`.

Source
------
Zhu et al., SIGCOMM 2015 (DCQCN): the first notification halves the rate; NVIDIA, rp_cnp_handled, rp_cnp_ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.analysis.congestion import Episode
from railbed.capture.analysis.results import FlowView, RecordedFlow
from railbed.capture.proof import PacketProof, proof_of
from railbed.capture.subjects import PathView
from railbed.model.text import plural, size
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Absent, NotJudged, Rule

LEAST_NOTICES = 10
LEAST_IN_EPISODE = 5
"""Each halves the limit of a card at first: after so many, it is below almost any rate."""
LEAST_SHARE = 0.5
"""Of the link's speed: a sender as fast as this feels the first notification."""
MOST_SLOWED = 0.2
"""Share of episodes in which the rate may fall by itself."""


def judge(path: PathView) -> Iterator[Judgement]:
    """Compare the rates before and after notifications."""
    flows = [flow for flow in path.flows if flow.reaction]
    episodes = [episode for flow in flows for episode in (flow.reaction.episodes if flow.reaction else ())]
    place = path.context.place(path.source)
    if not flows:
        raise Absent(f"no notifications about packets from {path.sender} to {path.receiver} were recorded")
    if place and place.software:
        raise NotJudged(f"{place.name} is a software device, which does not react to notifications")
    if not episodes:
        raise NotJudged(f"{path.sender} had no time without notifications to compare with")
    episodes = [episode for episode in episodes if _is_limited(episode, place.speed if place else None)]
    if not episodes:
        raise NotJudged(f"{path.sender} had too few notifications at a time to slow it down")
    judged = sum(episode.notices for episode in episodes)
    slowed = sum(episode.reacted_after is not None for episode in episodes)
    if judged < LEAST_NOTICES or slowed > MOST_SLOWED * len(episodes):
        return
    before, after = (float(np.median([getattr(it, name) for it in episodes])) for name in ("before", "after"))
    yield fail(
        f"{judged:,} notifications in {plural(len(episodes), 'episode')}, and the rate stayed: "
        f"{size(before)}/s before, {size(after)}/s at the lowest after",
        *_proofs(path, flows[0], episodes[0]),
        # A file does not show whether a card or software received the notifications.
        certainty="possible" if place and place.software is None else "likely",
        expected="the sender slows down",
        subject=path.context.port(path.source),
    )


def _is_limited(episode: Episode, speed: float | None) -> bool:
    """Whether the notifications must be visible in the rate of a sender that obeys them."""
    fast = speed is not None and episode.before * 8e-9 >= LEAST_SHARE * speed
    return fast or episode.notices >= LEAST_IN_EPISODE


def _proofs(path: PathView, flow: RecordedFlow, episode: Episode) -> Iterator[PacketProof]:
    """Yield the notifications of the recording in which the reaction was judged."""
    back = path.analysis.partner(flow)
    views: tuple[FlowView, ...] = back.views if back else ()
    for view in views:
        if episode.first_row in view.view.notices:
            yield proof_of(view, view.view.notices, "CNP")
            return


RULE = Rule(
    name="reaction_ignored",
    title="the sender ignores notifications",
    scope="path",
    judge=judge,
    doc=__doc__,
)
