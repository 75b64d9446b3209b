"""Which nodes take part: those that are up and reach each other; who failed too often is out, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FAILURES_UNTIL_OUT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node as the launch sees it."""

    name: str
    address: str
    """Its address on the rail, where its ranks meet the others."""
    ranks: int = 1


@dataclass
class Roster:
    """The members, and how they are."""

    members: Mapping[str, Member]
    up: dict[str, int] = field(default_factory=dict)
    """Nodes whose agent answers, with the port of their door; 0 until it is open: then ranks can be started there."""
    cut: dict[str, str] = field(default_factory=dict)
    """Nodes that the others do not reach over the rail, and why."""
    failures: dict[str, list[str]] = field(default_factory=dict)

    def blame(self, node: str, why: str) -> None:
        """Count a failure against a node."""
        self.failures.setdefault(node, []).append(why)

    def forgive(self, nodes: Iterable[str]) -> None:
        """Forget the failures of nodes that have done good work since: who keeps failing is who does none between."""
        for node in nodes:
            self.failures.pop(node, None)

    @property
    def out(self) -> dict[str, str]:
        """Nodes that are left out for good, and why."""
        return {
            node: f"failed {len(reasons)} times in a row, the last time: {reasons[-1]}"
            for node, reasons in self.failures.items()
            if len(reasons) >= FAILURES_UNTIL_OUT
        }

    @property
    def usable(self) -> list[Member]:
        """Nodes that ranks can be started on, in the order of the cluster file."""
        return [
            member
            for name, member in self.members.items()
            if self.up.get(name) and name not in self.cut and name not in self.out
        ]

    def judge_reach(self, unreached: Mapping[str, Mapping[str, str]]) -> None:
        """Keep the largest group of nodes that all reach each other; the rest is cut off for now.

        Which side of a cut is the wrong one cannot be told; the side with more nodes goes on, and of equals the one
        with the first node.
        """
        names = [name for name in self.members if name in unreached]
        group: list[str] = []
        for first in names:
            grown = [first]
            for name in names:
                if name != first and all(_both_ways(unreached, name, other) for other in grown):
                    grown.append(name)
            group = max(group, grown, key=len)
        self.cut = {name: _why(unreached, name, group) for name in names if name not in group}


def _both_ways(unreached: Mapping[str, Mapping[str, str]], one: str, other: str) -> bool:
    return other not in unreached.get(one, {}) and one not in unreached.get(other, {})


def _why(unreached: Mapping[str, Mapping[str, str]], name: str, group: list[str]) -> str:
    for other in group:
        why = unreached.get(other, {}).get(name) or unreached.get(name, {}).get(other)
        if why:
            return f"{other} does not reach it over the rail: {why}"
    return "the others do not reach it over the rail"
