"""The kind of lab made of virtual machines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping

from railbed.errors import UsageError
from railbed.lab.model import Lab, LabNode, Spec
from railbed.model.cluster import Node
from railbed.model.record import Event


class VmKind:
    """See `railbed.lab.kind.Kind`."""

    def admit(self, spec: Spec) -> None:
        raise UsageError("not yet")

    async def taken_numbers(self) -> set[int]:
        return set()

    async def claim(self, lab: Lab) -> None:
        return None

    async def build(self, lab: Lab) -> AsyncGenerator[Event, None]:
        yield Event(name="x")

    async def destroy(self, lab: Lab) -> None:
        return None

    def describe(self, lab: Lab, node: LabNode) -> Node:
        raise NotImplementedError

    async def settle(self, lab: Lab, targets: Iterable[str]) -> None:
        return None

    async def states(self, lab: Lab) -> Mapping[str, str]:
        return {}
