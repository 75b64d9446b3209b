"""For rules that compare nodes: the values by node, and a finding for each node without a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from railbed.model.probe import Probe
from railbed.model.reading import Unknown
from railbed.rules.judgement import Judgement, skip, unknown
from railbed.rules.site import NodeView, Site

F = TypeVar("F")
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Gathered(Generic[V]):
    """Values by node, and judgements of the nodes without a value."""

    values: dict[str, V]
    missing: tuple[Judgement, ...]

    @property
    def comparable(self) -> bool:
        """At least two nodes have a value."""
        return len(self.values) > 1


def gather(site: Site, probe: Probe[F], value: Callable[[F], V | None], expected: str) -> Gathered[V]:
    """Get a value from the facts of every node; None means that the node does not report it."""
    values: dict[str, V] = {}
    missing: list[Judgement] = []
    for node in site.nodes:
        reading = node.facts.read(probe)
        if isinstance(reading, Unknown):
            missing.extend(_unread(node, reading, expected))
            continue
        reported = value(reading.facts)
        if reported is None:
            missing.append(unknown(subject=node.name, expected=expected, observed="the node does not report it"))
        else:
            values[node.name] = reported
    return Gathered(values, tuple(missing))


def too_few(site: Site, gathered: Gathered[V]) -> Iterator[Judgement]:
    """Explain why nothing was compared; nodes without a value have their own finding."""
    if len(site.cluster.nodes) == 1:
        yield skip("only one node: nothing to compare")
    elif not gathered.missing:
        # The rule `reachable` reports the nodes that did not answer.
        yield skip("fewer than two nodes answered")


def most_common(values: Iterable[H]) -> H:
    """Return the value that most nodes have; of equally frequent ones the first."""
    return Counter(values).most_common(1)[0][0]


def _unread(node: NodeView, reading: Unknown, expected: str) -> Iterator[Judgement]:
    """Report unknown facts, unless the device stopped answering, which the rule `reachable` reports."""
    if not reading.device_failed:
        yield unknown(
            subject=node.name,
            expected=expected,
            observed=reading.reason,
            remedy=reading.remedy,
            evidence=reading.evidence,
        )
