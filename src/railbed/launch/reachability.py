"""Who reaches whom over the rail: asked of the agents, each of which has a door that the others can knock at."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.roster import Roster

AGAIN_SECONDS = 2.0


class Reachability:
    """Asks, and knows which answers belong to the last question."""

    def __init__(self, roster: Roster, links: Mapping[str, AgentLink]) -> None:
        self._roster = roster
        self._links = links
        self._question = 0
        self._asked = 0.0

    def ask_all(self) -> set[str]:
        """Ask every node that is up for all others, and return them; answers to what was asked before are void."""
        self._question += 1
        doors = self._doors(self._roster.up)
        for node in doors:
            self._ask(node, {one: door for one, door in doors.items() if one != node})
        return set(doors)

    def ask_again(self, nodes: Iterable[str]) -> None:
        """Ask the first node that can be used for these; from time to time, however often this is called."""
        now, usable = time.monotonic(), self._roster.usable
        if usable and now - self._asked > AGAIN_SECONDS:
            doors = self._doors({node for node in nodes if node != usable[0].name})
            if doors:
                self._asked = now
                self._question += 1
                self._ask(usable[0].name, doors)

    def close(self) -> None:
        """Wait for no more answers."""
        self._question += 1

    def answer(self, heard: NodeMessage | None) -> Mapping[str, str] | None:
        """Return which nodes were not reached, and why, where this answers the last question."""
        match heard:
            case NodeMessage(_, {"kind": "reach", "question": self._question, "unreached": dict(unreached)}):
                return unreached
        return None

    def _doors(self, nodes: Iterable[str]) -> dict[str, list[Any]]:
        up, members = self._roster.up, self._roster.members
        return {node: [members[node].address, up[node]] for node in nodes if up.get(node)}

    def _ask(self, node: str, doors: Mapping[str, list[Any]]) -> None:
        self._links[node].send({"do": "reach", "doors": dict(doors), "question": self._question})
