"""For rules that compare nodes: a value from every node that gives one, and a finding for each that does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from railbed.check.rule import Judgement, skip, unknown
from railbed.check.site import NodeView, Site
from railbed.model.probe import Probe
from railbed.model.reading import Unknown

F = TypeVar("F")
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Gathered(Generic[V]):
    """Values by node, and what is to be said of nodes without one."""

    values: dict[str, V]
    missing: tuple[Judgement, ...]

    @property
    def comparable(self) -> bool:
        """Two nodes or more gave a value."""
        return len(self.values) > 1


def gather(site: Site, probe: Probe[F], value: Callable[[F], V | None], expected: str) -> Gathered[V]:
    """Take one value from the facts of every node; None is a value that the node does not report it."""
    values: dict[str, V] = {}
    missing: list[Judgement] = []
    for node in site.nodes:
        reading = node.facts.read(probe)
        if isinstance(reading, Unknown):
            missing.extend(_unread(node, reading, expected))
            continue
        found = value(reading.facts)
        if found is None:
            missing.append(unknown(subject=node.name, expected=expected, observed="the node does not report it"))
        else:
            values[node.name] = found
    return Gathered(values, tuple(missing))


def too_few(site: Site, gathered: Gathered[V]) -> Iterator[Judgement]:
    """Say why nothing was compared; nodes without a value have said so themselves."""
    if len(site.cluster.nodes) == 1:
        yield skip("only one node: nothing to compare")
    elif not gathered.missing:
        # The nodes that did not answer are told of once, by the rule `reachable`.
        yield skip("fewer than two nodes answered")


def most_common(values: Iterable[H]) -> H:
    """Return the value that most nodes have; of equally frequent ones the first."""
    return Counter(values).most_common(1)[0][0]


def _unread(node: NodeView, reading: Unknown, expected: str) -> Iterator[Judgement]:
    """Tell of facts that are unknown; a device that stopped answering is told of once, by the rule `reachable`."""
    if not reading.device_failed:
        yield unknown(
            subject=node.name,
            expected=expected,
            observed=reading.reason,
            remedy=reading.remedy,
            evidence=reading.evidence,
        )
