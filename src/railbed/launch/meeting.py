"""Where the ranks of the next generation meet: a node opens the port and gets rank 0, and all ranks get the number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railbed.errors import DeviceError
from railbed.launch.agentlink import AgentLink, NodeMessage
from railbed.launch.placement import Placement
from railbed.model import events
from railbed.model.record import Event

LAST_PORT = 65535


class PortTaken(DeviceError):
    """The port that the cluster file sets for the ranks is in use on every node, none of which is to blame for it."""


class Meeting:
    """Has one node after the other open the port, until one has."""

    def __init__(self, generation: int, port: int, links: Mapping[str, AgentLink]) -> None:
        self._generation = generation
        self._fixed = port
        self._links = links
        self._taken: dict[str, str] = {}
        """Who holds the port that the cluster file sets, on which nodes."""
        self.node = ""
        """The node that opens the port, or has opened it; empty if there is none."""
        self.port = 0
        """The open port; 0 until there is one."""
        self.obstacle = ""
        """Why the node cannot open any port at its address."""

    def request(self, usable: Sequence[Placement]) -> None:
        """Have the first of the usable nodes open the port; raise PortTaken if it is in use on all of them."""
        if any(placement.node == self.node for placement in usable):
            return
        placement = next((placement for placement in usable if placement.node not in self._taken), None)
        if placement is None:
            raise self._taken_everywhere()
        self.node, self.port, self.obstacle = placement.node, 0, ""
        message = {"do": "meet", "address": placement.address, "port": self._fixed, "generation": self._generation}
        self._links[placement.node].send(message)

    def take(self, received: NodeMessage | None) -> Sequence[Event]:
        """Take a message, which may be the node's answer, and return the events that follow from it."""
        match received:
            case NodeMessage(self.node, {"kind": "lost"}):
                self.node = ""  # the agent that replaces it has not received the request
            case NodeMessage(self.node, {"kind": "meeting", "generation": self._generation} as message):
                return self._take_answer(message.get("port"), str(message.get("why") or "it named no port"))
        return []

    def _take_answer(self, port: object, why: str) -> Sequence[Event]:
        if isinstance(port, int) and 0 < port <= LAST_PORT:
            self.port = port
            return []
        if not self._fixed:
            self.obstacle = why
            return []
        self._taken[self.node] = why
        notice = f"the ranks cannot meet on port {self._fixed} of {self.node}, and meet on another node: {why}"
        self.node = ""
        return [events.Notice(message=notice)]

    def first(self, usable: Sequence[Placement]) -> list[Placement]:
        """Return the usable nodes with the one that has opened the port first: it gets rank 0."""
        return sorted(usable, key=lambda placement: placement.node != self.node)

    def _taken_everywhere(self) -> PortTaken:
        nodes = "; ".join(f"{node}: {why}" for node, why in self._taken.items())
        return PortTaken(
            f"the ranks cannot meet on port {self._fixed} ({nodes})",
            hint="have it released, or remove `rendezvous_port` from the cluster file: then ranks take any free port",
        )
