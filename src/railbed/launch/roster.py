"""The state of every node: lost, up, ready, cut off, returned, excluded. This is the only place that stores it.

    lost ──agent answers──▶ up ──listener open──▶ ready ◀──reached again──┐
     ▲                      │                       │                     │
     └──── silent, ended ───┴───────────────────────┴─ others fail to ──▶ cut off
                                                       reach it

A node that becomes ready while a generation runs without it has *returned*: the next generation may take it back. A
node that was blamed for FAILURES_UNTIL_EXCLUDED generations in a row is *excluded* permanently.

Which nodes reach each other over the rail: each agent listens there and tries to connect to the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.messages import Message
from railbed.launch.placement import Placement
from railbed.model import events
from railbed.model.record import Record

FAILURES_UNTIL_EXCLUDED = 3
SETTLE_SECONDS = 1.5
"""A returned node is taken back once it has been ready for this long."""


@dataclass
class NodeState:
    """One node."""

    placement: Placement
    port: int | None = None
    """Where its agent listens for the others: None while it is lost, 0 until ranks can be started there."""
    cut: str = ""
    """Why the others do not reach it over the rail; empty if they do."""
    returned: float | None = None
    """When it became ready during a generation that it is not part of."""
    failures: list[str] = field(default_factory=list)
    """Why it was blamed, since it last took part in useful work."""
    gone: str = ""
    """Why it never returns; empty if it may."""

    @property
    def excluded(self) -> str:
        """Return why it is excluded; empty if it is not."""
        if self.gone:
            return self.gone
        if len(self.failures) < FAILURES_UNTIL_EXCLUDED:
            return ""
        return f"failed {len(self.failures)} times in a row, most recently: {self.failures[-1]}"

    @property
    def is_usable(self) -> bool:
        """Whether ranks can be started on it."""
        return bool(self.port) and not self.cut and not self.excluded


class Roster:
    """All nodes of a job, in the order of the cluster file."""

    def __init__(self, placements: Sequence[Placement]) -> None:
        self._nodes = {placement.node: NodeState(placement) for placement in placements}

    def __getitem__(self, node: str) -> NodeState:
        return self._nodes[node]

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def usable(self) -> list[Placement]:
        """Nodes that ranks can be started on."""
        return [state.placement for state in self._nodes.values() if state.is_usable]

    @property
    def up(self) -> list[str]:
        """Nodes whose agent answers."""
        return [name for name, state in self._nodes.items() if state.port is not None]

    @property
    def ready(self) -> dict[str, tuple[str, int]]:
        """Nodes where ranks can be started at once, with the address and port of their agent's listener."""
        return {name: (state.placement.address, state.port) for name, state in self._nodes.items() if state.port}

    @property
    def cut(self) -> dict[str, str]:
        """Nodes that the others do not reach over the rail, and why."""
        return {name: state.cut for name, state in self._nodes.items() if state.cut}

    @property
    def failed(self) -> dict[str, str]:
        """Nodes that were blamed since their last useful work, with the most recent reason."""
        return {name: state.failures[-1] for name, state in self._nodes.items() if state.failures}

    @property
    def excluded(self) -> dict[str, str]:
        """Nodes that take no part in later generations, and why."""
        return {name: state.excluded for name, state in self._nodes.items() if state.excluded}

    def list_returned(self) -> list[str]:
        """Nodes that can be taken back."""
        ready_since = time.monotonic() - SETTLE_SECONDS
        return [
            name
            for name, state in self._nodes.items()
            if state.returned is not None and state.returned < ready_since and state.port and not state.excluded
        ]

    def describe_shortage(self, minimum: int) -> str:
        """Return which nodes are missing, and why, if fewer are usable than a job needs."""
        why = "; ".join(f"{node}: {reason}" for node, reason in {**self.failed, **self.cut}.items())
        left = f"{len(self.usable)} of {len(self)} nodes are left and {minimum} are needed"
        return f"{left} ({why or 'the others did not answer'})"

    def note_loss(self, node: str, why: str, *, is_gone: bool, first: bool) -> list[Record]:
        """Note that an agent is lost, or its node for good; `first` until ranks have been started.

        A link that repeatedly fails to start an agent is reported and blamed once.
        """
        if is_gone:
            self.mark_gone(node, why)
            return [events.NodeOut(subject=node, message=f"is excluded from now on: {why}")]
        was_up = self._nodes[node].port is not None
        self.mark_lost(node)
        if not was_up and not self._nodes[node].failures:
            self.blame(node, why)
        return [events.NodeLost(subject=node, message=why)] if was_up or first else []

    def note_listener(self, node: str, message: Message, *, returned: bool) -> list[Record]:
        """Note that ranks can be started on a node, or that the others could not reach them there."""
        port = message.get("port")
        if isinstance(port, int) and port:
            self.mark_ready(node, port, returned=returned)
            return []
        return [self.note_unusable(node, str(message.get("why")))]

    def note_unusable(self, node: str, reason: str) -> Record:
        """Note that the others cannot reach ranks on a node."""
        why = f"{self._nodes[node].placement.address} cannot be used: {reason}"
        self.mark_lost(node)
        self.blame(node, why)
        return events.NodeLost(subject=node, message=why)

    def mark_up(self, node: str) -> None:
        """Note that a node's agent answers."""
        self._nodes[node].port = 0

    def mark_ready(self, node: str, port: int, *, returned: bool) -> None:
        """Note that ranks can be started on a node; `returned` if a generation has been started before."""
        self._nodes[node].port = port
        if returned:
            self._nodes[node].returned = time.monotonic()

    def mark_lost(self, node: str) -> None:
        """Note that a node's agent no longer answers."""
        state = self._nodes[node]
        state.port, state.cut, state.returned = None, "", None

    def mark_gone(self, node: str, why: str) -> None:
        """Note that a node never returns."""
        self.mark_lost(node)
        self._nodes[node].gone = why
        self.blame(node, why)

    def mark_reached(self, node: str) -> None:
        """Note that a node that was cut off is reached again."""
        self._nodes[node].cut, self._nodes[node].returned = "", time.monotonic()

    def take_in(self, placements: Iterable[Placement]) -> None:
        """Note that nodes are part of the new generation."""
        for placement in placements:
            self._nodes[placement.node].returned = None

    def blame(self, node: str, why: str) -> None:
        """Count a failure against a node."""
        self._nodes[node].failures.append(why)

    def forgive(self, nodes: Iterable[str]) -> None:
        """Forget the failures of nodes that have done useful work since: only failures in a row count."""
        for node in nodes:
            self._nodes[node].failures.clear()

    def judge_reachability(self, unreached: Mapping[str, Mapping[str, str]]) -> None:
        """Keep the largest group of nodes that all reach each other; the rest is cut off for now.

        `unreached` has, for each node that answered, the nodes it did not reach, and why. Which side of a cut is the
        faulty one cannot be known: the larger side continues, and of equal sides the one with the first node.
        """
        names = [name for name in self._nodes if name in unreached]
        group: list[str] = []
        for first in names:
            grown = [first]
            for name in names:
                if name != first and all(_both_ways(unreached, name, other) for other in grown):
                    grown.append(name)
            group = max(group, grown, key=len)
        for name, state in self._nodes.items():
            state.cut = _why_cut(unreached, name, group) if name in names and name not in group else ""


def _both_ways(unreached: Mapping[str, Mapping[str, str]], first: str, second: str) -> bool:
    return second not in unreached.get(first, {}) and first not in unreached.get(second, {})


def _why_cut(unreached: Mapping[str, Mapping[str, str]], name: str, group: list[str]) -> str:
    for other in group:
        why = unreached.get(other, {}).get(name) or unreached.get(name, {}).get(other)
        if why:
            return f"{other} does not reach it over the rail: {why}"
    return "the others do not reach it over the rail"


AGAIN_SECONDS = 2.0


class Reachability:
    """Sends the questions. Answers carry the question's number, so that a late answer to an old one is ignored."""

    def __init__(self, roster: Roster, links: Mapping[str, AgentLink]) -> None:
        self._roster = roster
        self._links = links
        self._question = 0
        self._last_asked = 0.0

    def test_all(self) -> set[str]:
        """Let every ready node try all others; return the nodes that will answer."""
        self._question += 1
        listeners = self._roster.ready
        for node in listeners:
            self._ask(node, {other: listeners[other] for other in listeners if other != node})
        return set(listeners)

    def test_again(self, nodes: Iterable[str]) -> None:
        """Let the first usable node try these; at most every AGAIN_SECONDS, even if called more often."""
        now, usable = time.monotonic(), self._roster.usable
        if usable and now - self._last_asked > AGAIN_SECONDS:
            asking, ready = usable[0].node, self._roster.ready
            listeners = {node: ready[node] for node in nodes if node != asking and node in ready}
            if listeners:
                self._last_asked = now
                self._question += 1
                self._ask(asking, listeners)

    def close(self) -> None:
        """Ignore later answers."""
        self._question += 1

    def answer(self, received: NodeMessage | None) -> Mapping[str, str] | None:
        """Return which nodes were not reached, and why, if this is an answer to the last question."""
        match received:
            case NodeMessage(_, {"kind": "reach", "question": self._question, "unreached": dict(unreached)}):
                return unreached
        return None

    def _ask(self, node: str, listeners: Mapping[str, tuple[str, int]]) -> None:
        self._links[node].send({"do": "reach", "listeners": dict(listeners), "question": self._question})
