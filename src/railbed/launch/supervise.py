"""Generations of ranks: one runs until it is done or something fails, then the next starts with who is left.

Noticed are a rank that ends, a rank that says nothing, ranks that say they live and make no step, and a node that is
silent. What failed is told in words; the job says what the next generation starts from.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.job import Job
from railbed.launch.protocol import SILENCE_SECONDS, Message
from railbed.launch.ranks import RankWatch
from railbed.launch.reachability import Reachability
from railbed.launch.roster import Member, Roster
from railbed.model.progress import progress
from railbed.model.record import Event, Record

TICK_SECONDS = 0.25
GATHER_SECONDS = 120.0
"""How long nodes may take to be ready at first: they load torch."""
STOP_SECONDS = 6.0
VICTIM_SECONDS = SILENCE_SECONDS + 1.5
"""How long to look for who is at fault when a rank only lost the others."""
RETURN_SECONDS = 300.0
"""How long to wait for nodes to come back when too few are left."""
VAIN_STARTS = 10
"""After so many generations in a row that were of no use, the next will not be either."""
RESUME_HINT = "the checkpoints are kept: `railbed train --resume RUN` goes on from them"
SETTLE_SECONDS = 1.5
"""A node that came back is taken back once it has been up for so long."""


class GaveUp(DeviceError):
    """Too few nodes are left to go on."""


class Refused(DeviceError):
    """The ranks cannot do what was asked for."""


class Supervisor:
    """Runs one job on a fleet."""

    def __init__(
        self, fleet: Fleet, job: Job, members: Sequence[Member], commands: Mapping[str, str], minimum: int
    ) -> None:
        self._fleet = fleet
        self._job = job
        self._minimum = minimum
        self._roster = Roster({member.name: member for member in members})
        self._inbox: asyncio.Queue[NodeMessage] = asyncio.Queue()
        self._links = {name: AgentLink(name, command, self._inbox) for name, command in commands.items()}
        self._ranks = RankWatch({})
        self._number = 0
        self._vain = 0
        self._came_back: dict[str, float] = {}
        self._suspect: tuple[str, str] | None = None
        self._victim: tuple[str, float] | None = None
        self._reach = Reachability(self._roster, self._links)

    async def run(self) -> AsyncGenerator[Record, None]:
        """Run generations until the job is done; ends every rank on every node, however this ends."""
        keepers = [asyncio.create_task(link.keep(self._fleet)) for link in self._links.values()]
        try:
            async for record in self._gather():
                yield record
            while True:
                yield self._start()
                async for record in self._watch():
                    yield record
                if self._ranks.is_done:
                    return
                async for record in self._regroup():
                    yield record
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)

    async def _gather(self) -> AsyncGenerator[Record, None]:
        """Wait for the nodes: for all of them at first, and for enough of them in the end."""
        deadline = time.monotonic() + GATHER_SECONDS
        wanted = len(self._links)
        while sum(port != 0 for port in self._roster.up.values()) < wanted and time.monotonic() < deadline:
            for record in self._told(await self._hear()):
                yield record
            if self._roster.failures and len(self._roster.up) >= self._minimum:
                wanted = len(self._roster.up)
        async for record in self._await_enough(0.0):
            yield record

    async def _await_enough(self, seconds: float) -> AsyncGenerator[Record, None]:
        """Wait for enough nodes, and give up where they do not come."""
        if len(self._links) - len(self._roster.out) < self._minimum:  # who is left out for good does not come back
            raise self._too_few()
        deadline = time.monotonic() + seconds
        if len(self._roster.usable) < self._minimum and seconds:
            missing = self._minimum - len(self._roster.usable)
            yield Event(name="notice", message=f"waiting up to {seconds:g} s for {missing} more nodes")
            yield progress(f"waiting for {missing} more nodes")
        while len(self._roster.usable) < self._minimum:
            if time.monotonic() >= deadline:
                raise self._too_few()
            for record in self._told(await self._hear()):
                yield record
            self._knock()

    def _too_few(self) -> GaveUp:
        reasons = {**{node: told[-1] for node, told in self._roster.failures.items()}, **self._roster.cut}
        why = "; ".join(f"{node}: {reason}" for node, reason in reasons.items()) or "the others did not answer"
        left = f"{len(self._roster.usable)} of {len(self._links)} nodes are left and {self._minimum} are needed"
        return GaveUp(f"{left} ({why})", hint=RESUME_HINT)

    def _start(self) -> Event:
        self._number += 1
        members = self._roster.usable
        plan = self._job.generation(self._number, members)
        self._ranks = RankWatch({start.rank: node for node, starts in plan.items() for start in starts})
        for node, starts in plan.items():
            self._links[node].send(
                {"do": "start", "generation": self._number, "ranks": [start.as_message() for start in starts]}
            )
        for member in members:
            self._came_back.pop(member.name, None)
        names = ", ".join(member.name for member in members)
        return Event(
            name="generation",
            subject=f"generation {self._number}",
            message=f"{len(self._ranks.nodes)} ranks on {names}",
            data={"generation": self._number, "nodes": [member.name for member in members]},
        )

    async def _watch(self) -> AsyncGenerator[Record, None]:
        """Yield what the generation says, and as the last of it the event `done` or `restart`.

        Raises Refused where a rank says that what was asked for cannot be: no other start would change that.
        """
        self._suspect, self._victim = None, None
        while True:
            heard = await self._hear()
            for record in self._told(heard):
                yield record
            if self._ranks.refusal:
                raise Refused(self._ranks.refusal[0], hint=self._ranks.refusal[1])
            self._knock()
            if self._ranks.is_under_way and self._job.may_regroup:
                self._vain = 0
                self._roster.forgive(self._ranks.nodes.values())
            if self._ranks.is_done:
                yield Event(name="done", message="every rank is done", data={"generation": self._number})
                return
            why = self._end_of_generation(heard)
            if why:
                yield Event(name="restart", subject=why[0], message=why[1], data={"generation": self._number})
                return

    def _end_of_generation(self, heard: NodeMessage | None) -> tuple[str, str] | None:
        """Return the node and the words for why this generation must end."""
        self._suspect = self._interference() or self._failure(heard) or self._ranks.stall()
        if self._suspect:
            node, why = self._suspect
            return node, f"{node}: {why}" if node else why
        if self._victim and time.monotonic() > self._victim[1]:
            why = f"{self._victim[0]}: a rank lost the others, and none of them failed"
            return self._victim[0], f"{why}; strangers spoke to them" if self._ranks.intrusions else why
        returned = self._returned()
        return (returned[0], f"{' and '.join(returned)} came back") if returned else None

    def _interference(self) -> tuple[str, str] | None:
        """Return what somebody from outside did to the ranks, which is the fault of no node."""
        interference = self._ranks.interference
        return ("", f"the ranks were interfered with: {interference}") if interference else None

    def _knock(self) -> None:
        """Ask whether nodes that were cut off can be reached again.

        While ranks are still joining and loading, nobody can say how long that may take: then the members are asked for
        as well, so that a rail that is cut in this moment is noticed.
        """
        starting = [] if self._ranks.is_under_way else self._ranks.nodes.values()
        self._reach.ask_again([*self._roster.cut, *starting])

    async def _hear(self) -> NodeMessage | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                return await self._inbox.get()
        return None

    def _told(self, heard: NodeMessage | None) -> list[Record]:  # noqa: PLR0911  (one for each thing heard)
        """Note what was heard of a node or rank, and return what is to be kept of it."""
        match heard:
            case NodeMessage(node, {"kind": "up"}):
                self._roster.up[node] = 0
                self._links[node].send({"do": "door", "address": self._roster.members[node].address})
                return [Event(name="node_up", subject=node, message="its agent answers")]
            case NodeMessage(node, {"kind": "lost", "why": str(why)}):
                was_up = self._roster.up.pop(node, None) is not None
                self._roster.cut.pop(node, None)
                self._came_back.pop(node, None)
                if not was_up and node not in self._roster.failures:
                    self._roster.blame(node, why)
                return [Event(name="node_lost", subject=node, message=why)] if was_up or not self._number else []
            case NodeMessage(node, {"kind": "door"} as said):
                return self._note_door(node, said)
            case NodeMessage(_, {"kind": "reach"}):
                unreached = self._reach.answer(heard)
                for node in [node for node in self._roster.cut if unreached is not None and node not in unreached]:
                    del self._roster.cut[node]
                    self._came_back[node] = time.monotonic()
                return []
            case NodeMessage(
                node, {"kind": "message", "generation": self._number, "rank": int(rank), "message": dict(said)}
            ):
                self._ranks.note(rank, said)
                return list(self._job.hear(node, rank, said))
            case NodeMessage(node, {"kind": "log", "rank": int(rank), "text": str(text)}):
                return [Event(name="log", subject=f"{node}/rank{rank}", message=text)]
            case _:
                return []

    def _note_door(self, node: str, said: Message) -> list[Record]:
        """Note that ranks can be started on a node, or that the others would not reach them there."""
        if said.get("port"):
            self._roster.up[node] = int(said["port"])
            if self._number:
                self._came_back[node] = time.monotonic()
            return []
        why = f"{self._roster.members[node].address} cannot be used: {said.get('why')}"
        self._roster.up.pop(node, None)
        self._roster.blame(node, why)
        return [Event(name="node_lost", subject=node, message=why)]

    def _failure(self, heard: NodeMessage | None) -> tuple[str, str] | None:
        """Return the node that failed, and how."""
        match heard:
            case NodeMessage(node, {"kind": "lost", "why": str(why)}) if node in self._ranks.nodes.values():
                return node, why
            case NodeMessage(node, {"kind": "reach"}):
                for other, why in (self._reach.answer(heard) or {}).items():
                    if other in self._ranks.nodes.values():
                        return other, f"{node} does not reach it over the rail: {why}"
            case NodeMessage(node, {"kind": "halted", "generation": self._number, "rank": int(number)}):
                if not self._ranks.has_done(number):
                    return node, f"rank {number} is stopped (SIGSTOP)"
            case NodeMessage(
                node, {"kind": "exit", "generation": self._number, "rank": int(number), "code": int(code)} as said
            ):
                if self._ranks.lost_peers(number):
                    # Somebody else is at fault, who may take a while to be noticed.
                    self._ranks.excuse(number, VICTIM_SECONDS)
                    self._victim = self._victim or (node, time.monotonic() + VICTIM_SECONDS)
                elif code or not self._ranks.has_done(number):
                    reason = said.get("said") or self._ranks.errors.get(number)
                    return node, f"rank {number} {_ending(code)}" + (f": {reason}" if reason else "")
        return None

    def _returned(self) -> list[str]:
        """Return the nodes that can be taken back, where now is a good moment for it."""
        now = time.monotonic()
        back = [
            node
            for node, since in self._came_back.items()
            if now - since > SETTLE_SECONDS and node not in self._roster.out and self._roster.up.get(node)
        ]
        return back if back and self._job.may_regroup else []

    async def _regroup(self) -> AsyncGenerator[Record, None]:
        """End what is left of a generation, and find out who reaches whom."""
        waiting = set(self._roster.up)
        for node in waiting:
            self._links[node].send({"do": "stop", "generation": self._number, "grace": 0.0})
        deadline = time.monotonic() + STOP_SECONDS
        while waiting and time.monotonic() < deadline:
            heard = await self._hear()
            for record in self._told(heard):
                yield record
            match heard:
                case NodeMessage(node, {"kind": "stopped", "generation": self._number} | {"kind": "lost"}):
                    waiting.discard(node)
        for node in waiting:
            self._links[node].drop()
            self._roster.up.pop(node, None)
        known = set(self._roster.cut)
        async for record in self._try_reach():
            yield record
        out = set(self._roster.out)
        self._blame({node: why for node, why in self._roster.cut.items() if node not in known})
        for node, why in self._roster.out.items():
            if node not in out:
                yield Event(name="node_out", subject=node, message=f"is left out from now on: {why}")
        async for record in self._await_enough(RETURN_SECONDS):
            yield record

    def _blame(self, newly_cut: Mapping[str, str]) -> None:
        """Count the failure against who caused it; where a rail fails for most of the nodes, none of them did."""
        self._vain += 1
        if self._vain >= VAIN_STARTS:
            why = self._suspect[1] if self._suspect else "a rank lost the others"
            raise GaveUp(f"{self._vain} starts in a row failed; the last reason: {why}", hint=RESUME_HINT)
        if newly_cut:
            if len(newly_cut) < len(self._roster.usable):
                for node, why in newly_cut.items():
                    self._roster.blame(node, why)
        elif self._suspect and self._suspect[0]:
            self._roster.blame(*self._suspect)

    async def _try_reach(self) -> AsyncGenerator[Record, None]:
        waiting = self._reach.ask_all()
        answers: dict[str, Mapping[str, str]] = {}
        deadline = time.monotonic() + STOP_SECONDS
        while waiting and time.monotonic() < deadline:
            heard = await self._hear()
            unreached = self._reach.answer(heard)
            if heard and unreached is not None:
                answers[heard.node] = unreached
                waiting.discard(heard.node)
                continue
            match heard:
                case NodeMessage(node, {"kind": "lost"}):
                    waiting.discard(node)
            for record in self._told(heard):
                yield record
        self._reach.close()
        before = dict(self._roster.cut)
        self._roster.judge_reach(answers)
        for node, why in self._roster.cut.items():
            if node not in before:
                yield Event(name="node_cut", subject=node, message=why)


def _ending(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with {code}"
