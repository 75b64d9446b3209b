"""Runs a job on nodes, generation by generation: each runs until it is done or something fails, then the next starts.

                 all nodes ready, or enough of them
    ┌────────┐   and no more to come    ┌───────┐ port open  ┌───────┐  every rank is done
    │ gather │─────────────────────────▶│ start │───────────▶│ watch │────────────────────▶ the end
    └────────┘                          └───────┘            └───────┘
        │                                   ▲                  │   │ a rank refuses
        │ too few                           │ enough usable    │   └────────────────────▶ Refused
        ▼                                   │ nodes            │ a node or rank fails or is silent,
     GaveUp ◀── too few for 300 s, or ──┌─────────┐            │ the ranks make no step, or a node
                10 starts in a row      │ regroup │◀───────────┘ has returned at a good moment
                failed                  └─────────┘

Start has the agent of the first usable node open the port where the ranks meet, before any rank starts: any free port,
unless the cluster file names one. Regroup ends the remaining ranks, has the nodes test which of them reach each other,
and blames at most one cause for the generation: the nodes that are newly cut off, else the suspect. `Roster` has the
state of every node, `Generation` that of the ranks and of the suspected cause; the supervisor moves between the states
and yields records.

There is one inbox for the messages of all agents, and one task takes messages from it, in every state. So state only
changes between two messages, and no lock is needed. Each wait for a message is bounded by TICK_SECONDS, because the
absence of a message (a heartbeat, a step) has to be noticed as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.generation import Generation
from railbed.launch.job import Job
from railbed.launch.meeting import Meeting
from railbed.launch.placement import Placement
from railbed.launch.roster import Reachability, Roster
from railbed.model import events
from railbed.model.events.general import progress
from railbed.model.events.train import RETURNED
from railbed.model.record import Event, Record
from railbed.model.text import plural

TICK_SECONDS = 0.25
GATHER_SECONDS = 120.0
"""How long nodes may take to be ready at first: they load torch."""
STOP_SECONDS = 6.0
RETURN_SECONDS = 300.0
"""How long to wait for nodes to return when too few are left."""
INVALID = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""What a message with fields of other kinds may raise: a node must not end the run of the others with it."""
FAILED_STARTS = 10
"""After this many generations in a row without useful work, the next one is not tried."""


class GaveUp(DeviceError):
    """Too few nodes are left to continue, or no generation makes progress."""


class StartRefused(DeviceError):
    """The ranks refuse the request: another start would fail in the same way."""


class Supervisor:
    """Runs one job on a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        job: Job,
        placements: Sequence[Placement],
        minimum: int,
        *,
        port: int = 0,
        return_seconds: float = RETURN_SECONDS,
    ) -> None:
        self._fleet = fleet
        self._job = job
        self._minimum = minimum
        self._port = port
        """Where the ranks meet; 0 for any free port."""
        self._return_seconds = return_seconds
        self._roster = Roster(placements)
        self._inbox: asyncio.Queue[NodeMessage] = asyncio.Queue()
        self._links = {
            placement.node: AgentLink(placement.node, placement.agent_command(job.preload), self._inbox)
            for placement in placements
        }
        self._reachability = Reachability(self._roster, self._links)
        self._generation = Generation()
        self._failed_starts = 0

    async def run(self) -> AsyncGenerator[Record, None]:
        """Run generations until the job is done; in any case, end every rank on every node."""
        # Cancelling a link closes its connection, and an agent ends its ranks when its connection ends: no rank
        # outlives this block, even if it is left by an exception or by a consumer that stops listening.
        links = [asyncio.create_task(link.keep(self._fleet)) for link in self._links.values()]
        try:
            async for record in self._gather():
                yield record
            while True:
                async for record in self._start():
                    yield record
                async for record in self._watch():
                    yield record
                if self._generation.ranks.is_done:
                    return
                async for record in self._regroup():
                    yield record
        finally:
            for link in links:
                link.cancel()
            await asyncio.gather(*links, return_exceptions=True)

    def write(self, rank: int, name: str, text: str = "") -> None:
        """Write a file in the job's folder on the node that a rank runs on; nothing if no such rank runs."""
        node = self._generation.ranks.nodes.get(rank)
        if node is not None:
            self._links[node].send({"do": "write", "name": name, "text": text})

    async def stop(self) -> AsyncGenerator[Record, None]:
        """End all ranks of the generation, and yield what they report until then.

        A node that does not confirm that in time counts as lost.
        """
        waiting = set(self._roster.up)
        for node in waiting:
            self._links[node].send({"do": "stop", "generation": self._generation.number, "grace": 0.0})
        deadline = time.monotonic() + STOP_SECONDS
        while waiting and time.monotonic() < deadline:
            received = await self._receive()
            for record in self._note(received):
                yield record
            match received:
                case NodeMessage(node, {"kind": "lost"}):
                    waiting.discard(node)
                case NodeMessage(node, {"kind": "stopped", "generation": self._generation.number}):
                    waiting.discard(node)
        for node in waiting:
            # Its ranks may still run, and would hold the ports and devices that the next generation needs. Without a
            # connection its agent ends them.
            self._links[node].drop()
            self._roster.mark_lost(node)

    async def _gather(self) -> AsyncGenerator[Record, None]:
        """Wait for all nodes; once one has failed, only for those that are up, if they are enough."""
        deadline = time.monotonic() + GATHER_SECONDS
        wanted = len(self._roster)
        while len(self._roster.ready) < wanted and time.monotonic() < deadline:
            for record in self._note(await self._receive()):
                yield record
            if self._roster.failed and len(self._roster.up) >= self._minimum:
                wanted = len(self._roster.up)
        for node in [node for node in self._roster.up if node not in self._roster.ready]:
            why = f"its agent answers, but was not ready to start ranks within {GATHER_SECONDS:g} s"
            self._roster.blame(node, why)
            yield events.NodeLost(subject=node, message=why)
        async for record in self._await_enough(0.0):
            yield record

    async def _await_enough(self, seconds: float) -> AsyncGenerator[Record, None]:
        """Wait for enough usable nodes; give up if there are too few in time."""
        deadline = time.monotonic() + seconds
        if len(self._roster.usable) < self._minimum and seconds:
            missing = self._minimum - len(self._roster.usable)
            yield events.Notice(message=f"waiting up to {seconds:g} s for {missing} more nodes")
            yield progress(f"waiting for {missing} more nodes")
        while len(self._roster.usable) < self._minimum:
            enough_may_return = len(self._roster) - len(self._roster.excluded) >= self._minimum
            if time.monotonic() >= deadline or not enough_may_return:
                raise GaveUp(self._roster.describe_shortage(self._minimum), hint=self._job.advice)
            for record in self._note(await self._receive()):
                yield record
            self._test_rail()

    async def _start(self) -> AsyncGenerator[Record, None]:
        """Open the port where the ranks of the next generation meet, and start them."""
        number = self._generation.number + 1
        meeting = Meeting(number, self._port, self._links)
        while not meeting.port:
            async for record in self._await_enough(self._return_seconds):
                yield record
            meeting.request(self._roster.usable)
            received = await self._receive()
            for record in (*self._note(received), *meeting.take(received)):
                yield record
            if meeting.obstacle:
                yield self._roster.note_unusable(meeting.node, meeting.obstacle)
        yield self._start_ranks(number, meeting.first(self._roster.usable), meeting.port)

    def _start_ranks(self, number: int, placements: Sequence[Placement], port: int) -> Event:
        starts = self._job.generation(number, placements, port)
        self._generation = Generation(number, starts)
        for node, own in starts.items():
            ranks = [start.as_message() for start in own]
            self._links[node].send({"do": "start", "generation": number, "ranks": ranks})
        self._roster.take_in(placements)
        names, count = [placement.node for placement in placements], len(self._generation.ranks.nodes)
        return events.GenerationStarted(
            subject=f"generation {number}",
            message=f"{plural(count, 'rank')} on {', '.join(names)}",
            generation=number,
            nodes=names,
        )

    async def _watch(self) -> AsyncGenerator[Record, None]:
        """Yield the generation's records, and as the last one the event `done` or `restart`.

        Raises Refused if a rank reports that another start would fail in the same way.
        """
        generation = self._generation
        while True:
            received = await self._receive()
            for record in self._note(received):
                yield record
            if generation.ranks.refusal:
                sentence, hint = generation.ranks.refusal
                raise StartRefused(sentence, hint=hint)
            # Before the next test: its question makes this answer an old one.
            unreached = self._reachability.answer(received)
            self._test_rail()
            if generation.ranks.is_under_way and self._job.may_regroup:
                # Its work is saved: this start was useful, even if it fails later.
                self._failed_starts = 0
                self._roster.forgive(generation.nodes)
            if generation.ranks.is_done:
                yield events.GenerationDone(message="every rank is done", generation=generation.number)
                return
            failure = generation.failure(received, unreached)
            if failure:
                yield self._restart(failure.node, str(failure))
                return
            returned = self._roster.list_returned() if self._job.may_regroup else []
            if returned:
                yield self._restart(returned[0], f"{' and '.join(returned)} {RETURNED}")
                return

    def _restart(self, node: str, message: str) -> Event:
        return events.GenerationFailed(subject=node, message=message, generation=self._generation.number)

    def _test_rail(self) -> None:
        """Test whether nodes that were cut off are reached again.

        While ranks are still joining and loading, their silence means nothing: then the rail of the participating nodes
        is tested as well, so that a cut at this moment is noticed.
        """
        starting = [] if self._generation.ranks.is_under_way else self._generation.nodes
        self._reachability.test_again([*self._roster.cut, *starting])

    async def _receive(self) -> NodeMessage | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                return await self._inbox.get()
        return None

    def _note(self, received: NodeMessage | None) -> Sequence[Record]:
        """Update the state from a message, and return the records that follow from it: a notice if it is invalid."""
        try:
            return self._take(received)
        except INVALID:
            if received is None:
                raise
            return [events.Notice(message=f"{received.node} sent an invalid message")]

    def _take(self, received: NodeMessage | None) -> Sequence[Record]:
        match received:
            case NodeMessage(node, {"kind": "up"}):
                self._roster.mark_up(node)
                self._links[node].send({"do": "listen", "address": self._roster[node].placement.address})
                return [events.NodeUp(subject=node, message="its agent answers")]
            case NodeMessage(node, {"kind": "lost", "why": str(why)} as message):
                return self._roster.note_loss(
                    node, why, is_gone=bool(message.get("gone")), first=not self._generation.number
                )
            case NodeMessage(node, {"kind": "listening"} as message):
                return self._roster.note_listener(node, message, returned=self._generation.number > 0)
            case NodeMessage(_, {"kind": "reach"}):
                unreached = self._reachability.answer(received)
                for node in self._roster.cut:
                    if unreached is not None and node not in unreached:
                        self._roster.mark_reached(node)
            # Messages of an earlier generation may still arrive: its number distinguishes them.
            case NodeMessage(
                node,
                {
                    "kind": "message",
                    "generation": self._generation.number,
                    "rank": int(rank),
                    "message": dict(message),
                },
            ):
                self._generation.ranks.note(rank, message)
                return self._job.receive(node, rank, message)
            case NodeMessage(node, {"kind": "log", "rank": int(rank), "text": str(text)}):
                return [events.LogLine(subject=f"{node}/rank{rank}", message=text)]
        return []

    async def _regroup(self) -> AsyncGenerator[Record, None]:
        """End the remaining ranks of a generation, and find out which nodes the next one can have."""
        async for record in self.stop():
            yield record
        known, excluded = set(self._roster.cut), set(self._roster.excluded)
        async for record in self._test_reachability():
            yield record
        self._blame({node: why for node, why in self._roster.cut.items() if node not in known})
        for node, why in self._roster.excluded.items():
            if node not in excluded and not self._roster[node].gone:
                yield events.NodeOut(subject=node, message=f"is excluded from now on: {why}")
        async for record in self._await_enough(self._return_seconds):
            yield record

    def _blame(self, newly_cut: Mapping[str, str]) -> None:
        """Count the failure against its cause; if the rail fails for most of the nodes, none of them is to blame."""
        self._failed_starts += 1
        if self._failed_starts >= FAILED_STARTS:
            why = self._generation.describe()
            raise GaveUp(
                f"{self._failed_starts} starts in a row failed, most recently because {why}", hint=self._job.advice
            )
        suspect = self._generation.suspect
        if newly_cut:
            if len(newly_cut) < len(self._roster.usable):
                for node, why in newly_cut.items():
                    self._roster.blame(node, why)
        elif suspect and suspect.node:
            self._roster.blame(*suspect)

    async def _test_reachability(self) -> AsyncGenerator[Record, None]:
        """Have all nodes try to reach each other, and cut off those that the largest group does not reach."""
        waiting = self._reachability.test_all()
        answers: dict[str, Mapping[str, str]] = {}
        deadline = time.monotonic() + STOP_SECONDS
        while waiting and time.monotonic() < deadline:
            received = await self._receive()
            unreached = self._reachability.answer(received)
            if received and unreached is not None:
                answers[received.node] = unreached
                waiting.discard(received.node)
                continue
            match received:
                case NodeMessage(node, {"kind": "lost"}):
                    waiting.discard(node)
            for record in self._note(received):
                yield record
        self._reachability.close()
        before = self._roster.cut
        self._roster.judge_reachability(answers)
        for node, why in self._roster.cut.items():
            if node not in before:
                yield events.NodeCut(subject=node, message=why)
