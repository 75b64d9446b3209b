"""What a kind of lab must be able to do. Everything here can be called again, and on what is only half there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Protocol

from railbed.lab.model import KindName, Lab, LabNode, Spec, SwitchDoor
from railbed.lab.netns.kind import NetnsKind
from railbed.lab.patience import Signs
from railbed.lab.vm.kind import VmKind
from railbed.model.cluster import Node
from railbed.model.record import Event


class LabKind(Protocol):
    """A way to have machines without machines."""

    def admit(self, spec: Spec) -> None:
        """Refuse what this machine cannot do."""
        ...

    async def taken_numbers(self) -> set[int]:
        """Return numbers whose addresses something else on this machine uses."""
        ...

    async def claim(self, lab: Lab) -> None:
        """Take the lab's number, so that `taken_numbers` tells it to everybody on this machine."""
        ...

    def build(self, lab: Lab) -> AsyncGenerator[Event, None]:
        """Make the machines and start them; yields what is worth telling."""
        ...

    def signs(self, lab: Lab) -> Signs:
        """Return how to see that the machines are at work, so that slow ones are waited for."""
        ...

    async def destroy(self, lab: Lab) -> None:
        """End all processes of a lab and remove all it made outside its folder."""
        ...

    def describe(self, lab: Lab, node: LabNode) -> Node:
        """Return a node as it stands in the cluster file."""
        ...

    def switch_door(self, lab: Lab) -> SwitchDoor:
        """Return where the emulated switch listens, reached from this machine as the nodes are."""
        ...

    async def rail_macs(self, lab: Lab) -> Mapping[tuple[LabNode, int], str]:
        """Return the MAC address of every node's card on every rail."""
        ...

    def link_mbps(self, lab: Lab) -> int | None:
        """Return the speed that the nodes' cards report; None if they report none."""
        ...

    async def settle(self, lab: Lab, targets: Iterable[str]) -> None:
        """Apply the declared faults to these nodes and rails."""
        ...

    async def states(self, lab: Lab) -> Mapping[str, str]:
        """Return how each node is: `up`, `frozen` or `off`."""
        ...


KINDS: Mapping[KindName, LabKind] = {"netns": NetnsKind(), "vm": VmKind()}
