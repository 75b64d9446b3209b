"""Which nodes reach each other over the rail: each agent listens there and tries to connect to the others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.roster import Roster

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
