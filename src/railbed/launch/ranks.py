"""What is known of a generation's ranks from what they say: which are done, silent, or hold up the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from railbed.launch.protocol import SILENCE_SECONDS, Message

START_SECONDS = 120.0
"""How long ranks may take to say their first word: loading torch on a busy machine."""
STARTING = ("starting", "joining", "loading")
RANK_SECONDS = SILENCE_SECONDS + 0.75
"""A rank may be silent for longer than a node, so that of a silent node the node is blamed."""
QUIET_SECONDS = 2.5
"""Of ranks that make no step, one that has been silent for so long is the cause."""
STALL_SECONDS = 4.5
STALL_STEPS = 6.0
"""A step may take this many times as long as the last ones, and at least STALL_SECONDS, before it counts as hung."""


@dataclass(slots=True)
class _Rank:
    heard: float
    moved: float
    """When it last made a step."""
    spoke: bool = False
    starts: bool = False
    """It says that it loads libraries or joins the others: on a slow machine nothing else can run meanwhile."""
    stepping: bool = False
    """Steps are to be expected of it: it is not loading, evaluating or writing its results."""
    step: int = -1
    pace: float = 0.0
    """Seconds that a step takes, by the slower of the last ones."""
    done: bool = False
    lost_peers: bool = False
    """It ended because of the others."""


class RankWatch:
    """Watches one generation."""

    def __init__(self, nodes: Mapping[int, str]) -> None:
        self.nodes = dict(nodes)
        """Where each rank runs."""
        now = time.monotonic()
        self._ranks = {number: _Rank(heard=now, moved=now) for number in nodes}
        self.refusal: tuple[str, str] | None = None
        """Sentence and hint of a rank that cannot do what was asked for, however often it is started."""
        self.errors: dict[int, str] = {}
        """What ranks said of their own errors."""

    @property
    def is_done(self) -> bool:
        """Whether every rank said that it is done."""
        return bool(self._ranks) and all(rank.done for rank in self._ranks.values())

    @property
    def is_under_way(self) -> bool:
        """Whether every rank has made steps."""
        return all(rank.pace for rank in self._ranks.values())

    def has_done(self, number: int) -> bool:
        """Whether a rank said that it is done, or is none of ours."""
        return number not in self._ranks or self._ranks[number].done

    def lost_peers(self, number: int) -> bool:
        """Whether a rank said that it is well and lost the others."""
        return number in self._ranks and self._ranks[number].lost_peers

    def excuse(self, number: int, seconds: float) -> None:
        """Expect nothing of a rank for a while."""
        if number in self._ranks:
            self._ranks[number].heard = self._ranks[number].moved = time.monotonic() + seconds

    def note(self, number: int, said: Message) -> None:
        """Note what a rank said."""
        rank = self._ranks.get(number)
        if rank is None:
            return
        now = time.monotonic()
        rank.heard, rank.spoke = now, True
        if "phase" in said:
            rank.starts = said["phase"] in STARTING
        match said:
            case {"kind": "alive"}:
                stepping = bool(said.get("stepping", True))
                if stepping and not rank.stepping:
                    rank.moved = now
                rank.stepping = stepping
            case {"kind": "progress", "step": int(step)}:
                if rank.step >= 0:
                    rank.pace = max(now - rank.moved, 0.7 * rank.pace)
                rank.step, rank.moved = step, now
        if said.get("kind") == "error" and said.get("refused"):
            self.refusal = self.refusal or (str(said.get("sentence")), str(said.get("hint") or ""))
        if said.get("kind") == "error" and not said.get("peer"):
            self.errors[number] = str(said.get("sentence"))
        rank.done = rank.done or said.get("kind") == "done"
        rank.lost_peers = rank.lost_peers or (said.get("kind") == "error" and bool(said.get("peer")))

    def stall(self) -> tuple[str, str] | None:
        """Return the node that holds things up, "" where it cannot be told, and how: silence, or no step."""
        now = time.monotonic()
        running = {number: rank for number, rank in self._ranks.items() if not rank.done}
        for number, rank in running.items():
            limit = RANK_SECONDS if rank.spoke and not rank.starts else START_SECONDS
            if now - rank.heard > limit:
                return self.nodes[number], f"rank {number} said nothing for {limit:g} s"
        if not running or not all(rank.pace and rank.stepping for rank in running.values()):
            return None
        limit = max(STALL_SECONDS, STALL_STEPS * max(rank.pace for rank in running.values()))
        if any(now - rank.moved <= limit for rank in running.values()):
            return None
        why = f"no step for {limit:.1f} s"
        last, first = (choose(running, key=lambda one: running[one].step) for choose in (min, max))
        if running[last].step < running[first].step:
            return self.nodes[last], f"{why}; rank {last} is behind the others"
        quiet = min(running, key=lambda one: running[one].heard)
        if now - running[quiet].heard > QUIET_SECONDS:
            return self.nodes[quiet], f"{why}; rank {quiet} said nothing for {now - running[quiet].heard:.1f} s"
        # All wait for each other: whoever it is, the nodes find out when they try to reach one another.
        return "", why
