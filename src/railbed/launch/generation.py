"""One generation: all ranks from their start until they are done, or until a failure is known.

Failures are noticed in three ways. A rank or a node reports one, or ends; a node is silent; or nothing happens at all.
They do not arrive in the order in which they happened: when a node dies, the ranks on the *other* nodes notice first,
because their connections to it break within milliseconds, and the node itself counts as lost only after seconds of
silence. A rank that reports lost peers is therefore a *victim*. The generation waits VICTIM_SECONDS for the cause to
show, and only then ends without a suspect.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Mapping, Sequence

from railbed.launch.agentlink import NodeMessage
from railbed.launch.job import RankStart
from railbed.launch.protocol import SILENCE_SECONDS
from railbed.launch.ranks import Failure, RankWatch
from railbed.model.events.milestones import LOST_OTHERS

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
        self.suspect = self._interference() or self._reported(received, unreached) or self.ranks.stall()
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

    def _reported(self, received: NodeMessage | None, unreached: Mapping[str, str] | None) -> Failure | None:
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
