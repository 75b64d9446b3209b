"""One generation: all ranks from their start until they are done, or until a failure is known.

Failures are noticed in three ways. A rank or a node reports one, or ends; a node is silent; or nothing happens at all.
They do not arrive in the order in which they happened: when a node dies, the ranks on the *other* nodes notice first,
because their connections to it break within milliseconds, and the node itself counts as lost only after seconds of
silence. A rank that reports lost peers is therefore a *victim*. The generation waits VICTIM_SECONDS for the cause to
show, and only then ends without a suspect.

Messages of the ranks say which of them are done, silent, or hold up the others.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from railbed.launch.agentlink import NodeMessage
from railbed.launch.job import RankStart
from railbed.launch.messages import SILENCE_SECONDS, Message
from railbed.model.events.general import LOST_OTHERS

START_SECONDS = 120.0
"""How long ranks may take until their first message: loading torch on a busy machine."""
STARTING = ("starting", "joining", "loading")
RANK_SECONDS = SILENCE_SECONDS + 0.75
"""A rank may be silent for longer than a node, so that a silent node is blamed rather than one of its ranks."""
QUIET_SECONDS = 2.5
"""If no rank makes a step, one that has been silent for this long is the cause."""
STALL_SECONDS = 4.5
STALL_STEPS = 6.0
"""A step may take this many times as long as the last ones, and at least STALL_SECONDS, before it counts as hung."""


class Failure(NamedTuple):
    """What went wrong, and on which node; the node is empty if none is known to be at fault."""

    node: str
    why: str

    def __str__(self) -> str:
        return f"{self.node}: {self.why}" if self.node else self.why


@dataclass(slots=True)
class _Rank:
    last_message: float
    last_step: float
    has_reported: bool = False
    is_starting: bool = False
    """It loads libraries or joins the others: on a slow machine its heartbeat may not run meanwhile."""
    is_stepping: bool = False
    """Steps are expected: it is not loading, evaluating or writing its results."""
    step: int = -1
    pace: float = 0.0
    """Duration of a step in seconds, from the slower of the last ones."""
    is_done: bool = False
    lost_peers: bool = False
    """It ended because it lost the others."""


class RankWatch:
    """Watches the ranks of one generation."""

    def __init__(self, nodes: Mapping[int, str]) -> None:
        self.nodes = dict(nodes)
        """Where each rank runs."""
        now = time.monotonic()
        self._ranks = {number: _Rank(last_message=now, last_step=now) for number in nodes}
        self.refusal: tuple[str, str] | None = None
        """Sentence and hint of a rank that would fail in the same way again."""
        self.errors: dict[int, str] = {}
        """Errors that ranks reported about themselves."""
        self.interference = ""
        """A rank's report about a stranger who interfered with the ranks."""
        self.intrusions = 0
        """How often ranks reported connections of strangers."""

    @property
    def is_done(self) -> bool:
        """Whether every rank is done."""
        return bool(self._ranks) and all(rank.is_done for rank in self._ranks.values())

    @property
    def is_under_way(self) -> bool:
        """Whether every rank has made steps."""
        return all(rank.pace for rank in self._ranks.values())

    def has_done(self, number: int) -> bool:
        """Whether a rank is done, or does not belong to this generation."""
        return number not in self._ranks or self._ranks[number].is_done

    def lost_peers(self, number: int) -> bool:
        """Whether a rank is healthy and lost the others."""
        return number in self._ranks and self._ranks[number].lost_peers

    def excuse(self, number: int, seconds: float) -> None:
        """Tolerate the silence of a rank for a while."""
        if number in self._ranks:
            self._ranks[number].last_message = self._ranks[number].last_step = time.monotonic() + seconds

    def note(self, number: int, message: Message) -> None:
        """Update the state of a rank from one of its messages."""
        rank = self._ranks.get(number)
        if rank is None:
            return
        now = time.monotonic()
        rank.last_message, rank.has_reported = now, True
        if "phase" in message:
            rank.is_starting = message["phase"] in STARTING
        match message:
            case {"kind": "alive"}:
                stepping = bool(message.get("stepping", True))
                if stepping and not rank.is_stepping:
                    rank.last_step = now
                rank.is_stepping = stepping
            case {"kind": "progress", "step": int(step)}:
                if rank.step >= 0:
                    rank.pace = max(now - rank.last_step, 0.7 * rank.pace)
                rank.step, rank.last_step = step, now
            case {"kind": "rank_done"}:
                rank.is_done = True
            case {"kind": "intrusion"}:
                self.intrusions += 1
            case {"kind": "error"}:
                self._note_error(number, rank, message)

    def _note_error(self, number: int, rank: _Rank, message: Message) -> None:
        sentence = str(message.get("sentence"))
        if message.get("refused"):
            self.refusal = self.refusal or (sentence, str(message.get("hint") or ""))
        if message.get("interference"):
            self.interference = self.interference or sentence
        if message.get("peer"):
            rank.lost_peers = True
        else:
            self.errors[number] = sentence

    def stall(self) -> Failure | None:
        """Return the node that holds up the others, by silence or by making no step; empty if it is unknown."""
        now = time.monotonic()
        running = {number: rank for number, rank in self._ranks.items() if not rank.is_done}
        for number, rank in running.items():
            limit = RANK_SECONDS if rank.has_reported and not rank.is_starting else START_SECONDS
            if now - rank.last_message > limit:
                return Failure(self.nodes[number], f"rank {number} was silent for {limit:g} s")
        if not running or not all(rank.pace and rank.is_stepping for rank in running.values()):
            return None
        limit = max(STALL_SECONDS, STALL_STEPS * max(rank.pace for rank in running.values()))
        if any(now - rank.last_step <= limit for rank in running.values()):
            return None
        why = f"no step for {limit:.1f} s"
        last, first = (choose(running, key=lambda number: running[number].step) for choose in (min, max))
        if running[last].step < running[first].step:
            return Failure(self.nodes[last], f"{why}; rank {last} is behind the others")
        quiet = min(running, key=lambda number: running[number].last_message)
        silence = now - running[quiet].last_message
        if silence > QUIET_SECONDS:
            return Failure(self.nodes[quiet], f"{why}; rank {quiet} was silent for {silence:.1f} s")
        # Every rank waits for another. The reachability test then shows which node is at fault.
        return Failure("", why)


VICTIM_SECONDS = SILENCE_SECONDS + 1.5
"""How long to wait for the cause if a rank only lost the others: longer than it takes to notice a silent node."""


class Generation:
    """The ranks of one start, and the suspected cause of its end."""

    def __init__(self, number: int = 0, starts: Mapping[str, Sequence[RankStart]] | None = None) -> None:
        self.number = number
        """0 before the first start."""
        self.ranks = RankWatch({start.rank: node for node, own in (starts or {}).items() for start in own})
        self.suspect: Failure | None = None
        """The failure that ended this generation, as far as it is known."""
        self._victim: Failure | None = None
        self._victim_deadline = 0.0

    @property
    def nodes(self) -> Collection[str]:
        """The nodes that its ranks run on."""
        return self.ranks.nodes.values()

    def failure(self, received: NodeMessage | None, unreached: Mapping[str, str] | None) -> Failure | None:
        """Return why this generation must end, if it must.

        `received` is the last message of a node, `unreached` its report about the rail. A failure that was
        reported goes before one that is inferred from silence, and both before a victim.
        """
        self.suspect = self._interference() or self._explain_reports(received, unreached) or self.ranks.stall()
        if self._victim and not self.suspect and time.monotonic() > self._victim_deadline:
            return self._victim_alone(self._victim)
        return self.suspect

    def describe(self) -> str:
        """Return the reason it ended, for the sentence that gives up."""
        return self.suspect.why if self.suspect else LOST_OTHERS

    def _interference(self) -> Failure | None:
        """Return the failure if a stranger interfered with the ranks, which is not the fault of a node."""
        interference = self.ranks.interference
        return Failure("", f"the ranks were interfered with: {interference}") if interference else None

    def _explain_reports(self, received: NodeMessage | None, unreached: Mapping[str, str] | None) -> Failure | None:
        match received:
            case NodeMessage(node, {"kind": "lost", "why": str(why)}) if node in self.nodes:
                return Failure(node, why)
            case NodeMessage(node, {"kind": "reach"}):
                for other, why in (unreached or {}).items():
                    if other in self.nodes:
                        return Failure(other, f"{node} does not reach it over the rail: {why}")
            case NodeMessage(node, {"kind": "halted", "generation": self.number, "rank": int(rank)}):
                if not self.ranks.has_done(rank):
                    return Failure(node, f"rank {rank} is stopped (SIGSTOP)")
            case NodeMessage(node, {"kind": "exit", "generation": self.number, "rank": int(rank), "code": int(code)}):
                return self._rank_ended(node, rank, code, str(received.message.get("why") or ""))
        return None

    def _rank_ended(self, node: str, rank: int, code: int, why: str) -> Failure | None:
        if self.ranks.lost_peers(rank):
            # The cause is elsewhere and may take a while to show. Until then this rank is silent for a good reason.
            self.ranks.excuse(rank, VICTIM_SECONDS)
            if self._victim is None:
                self._victim = Failure(node, f"{LOST_OTHERS}, and none of them failed")
                self._victim_deadline = time.monotonic() + VICTIM_SECONDS
            return None
        if not code and self.ranks.has_done(rank):
            return None
        reason = why or self.ranks.errors.get(rank)
        return Failure(node, f"rank {rank} {_ending(code)}" + (f": {reason}" if reason else ""))

    def _victim_alone(self, victim: Failure) -> Failure:
        """Return the victim, since no cause has shown; strangers who connected to the ranks may be one."""
        return Failure(victim.node, f"{victim.why}; strangers connected to them") if self.ranks.intrusions else victim


def _ending(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with {code}"
