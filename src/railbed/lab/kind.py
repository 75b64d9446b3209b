"""The interface of a kind of lab. Every method can be repeated, and works on an incomplete lab."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Protocol

from railbed.lab.model import KindName, LabNode, Spec, StoredLab, SwitchDoor
from railbed.lab.netns.kind import NetnsKind
from railbed.lab.steps import Signs
from railbed.lab.vm.kind import VmKind
from railbed.model.cluster import Node
from railbed.model.record import Event


class LabKind(Protocol):
    """A kind of lab: how its machines are emulated."""

    def admit(self, spec: Spec) -> None:
        """Refuse what this machine cannot do."""
        ...

    async def taken_numbers(self) -> set[int]:
        """Return numbers whose addresses something else on this machine uses."""
        ...

    async def claim(self, lab: StoredLab) -> None:
        """Reserve the lab's number, so that `taken_numbers` includes it for all users of this machine.

        Raise NumberTaken if another user was quicker.
        """
        ...

    def build(self, lab: StoredLab) -> AsyncGenerator[Event, None]:
        """Create and start the machines; yield events about it."""
        ...

    def signs(self, lab: StoredLab) -> Signs:
        """Return signs that the machines make progress, so that slow ones are waited for."""
        ...

    async def destroy(self, lab: StoredLab) -> None:
        """End all processes of a lab and remove everything it created outside its folder."""
        ...

    def describe(self, lab: StoredLab, node: LabNode) -> Node:
        """Return a node for the cluster file."""
        ...

    def switch_door(self, lab: StoredLab) -> SwitchDoor:
        """Return where the emulated switch listens, reached from this machine as the nodes are."""
        ...

    async def rail_macs(self, lab: StoredLab) -> Mapping[tuple[LabNode, int], str]:
        """Return the MAC address of every node's card on every rail."""
        ...

    def link_mbps(self, lab: StoredLab) -> int | None:
        """Return the speed that the nodes' cards report; None if they report none."""
        ...

    async def settle(self, lab: StoredLab, targets: Iterable[str]) -> None:
        """Apply the declared faults to these nodes and rails."""
        ...

    async def states(self, lab: StoredLab) -> Mapping[str, str]:
        """Return the state of each node, and of the controller: `up`, `frozen` or `off`."""
        ...


KINDS: Mapping[KindName, LabKind] = {"netns": NetnsKind(), "vm": VmKind()}
