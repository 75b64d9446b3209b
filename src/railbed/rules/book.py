"""The rules of a verb, found by folder, and what differs between verbs: subjects, times, places and wording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

from railbed import catalog
from railbed.model.record import Certainty, Finding
from railbed.rules.rule import Rule, Scope, Subject

E = TypeVar("E")


def _as_it_is(_evidence: object, finding: Finding) -> Finding:
    return finding


def _general(_evidence: object, remedy: str, _subject: str) -> str:
    return remedy


def _nothing(_evidence: object) -> str:
    return ""


def _equal(_evidence: object, first: str, second: str) -> bool:
    return first == second


def _by_time(finding: Finding) -> tuple[float, float]:
    return finding.since or 0.0, finding.verdict.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook(Generic[E]):
    """The rules of a verb."""

    package: ModuleType
    subjects: Callable[[Scope, E], Iterable[Subject]]
    """What a rule of a scope is called for."""
    sums_up: bool
    """Whether a rule that finds nothing wrong has one finding for all its subjects; otherwise each subject has one, as
    soon as it is judged, and no finding explains another."""
    advice: Callable[[E, str, str], str] = _general
    """The Fix of a rule as it is shown for a subject."""
    complete: Callable[[E, Finding], Finding] = _as_it_is
    """Changes a finding about something that is wrong."""
    certainty: Certainty | None = None
    """Of what is wrong, unless the rule says otherwise."""
    no_subject: str = "the cluster file has no {scope}"
    """Why a rule without any subject was skipped."""
    missing: Callable[[E], str] = _nothing
    """Which evidence was lost; empty if none was."""
    same_place: Callable[[E, str, str], bool] = _equal
    """Whether what is wrong with a subject may explain what is wrong with another."""
    slack: float = inf
    """How long the effects of a fault may precede or outlast what is known of the fault itself, in seconds."""
    most: int = 0
    """Findings of a rule about a subject with the same verdict; more are counted in the last one. 0: all."""
    order: Callable[[Finding], tuple[float, float]] = _by_time
    """The order of what is wrong, if the book sums up."""

    @property
    def rules(self) -> Mapping[str, Rule[Any]]:
        """Every rule by name."""
        return _collect(self.package)


@cache
def _collect(package: ModuleType) -> Mapping[str, Rule[Any]]:
    return catalog.collect(package, Rule, "RULE")


class Device(Subject, Protocol):
    """A node or a switch."""

    @property
    def ports(self) -> Iterable[Subject]:
        """Its ports on rails, or to nodes."""


class ClusterParts(Subject, Protocol):
    """The cluster, with its parts."""

    @property
    def nodes(self) -> Iterable[Device]: ...
    @property
    def switches(self) -> Iterable[Device]: ...
    @property
    def rails(self) -> Iterable[Subject]: ...


def parts_of_cluster(scope: Scope, cluster: ClusterParts) -> Iterator[Subject]:
    """Yield the parts of a cluster that a rule of this scope is called for."""
    match scope:
        case "node":
            yield from cluster.nodes
        case "port":
            yield from (port for node in cluster.nodes for port in node.ports)
        case "rail":
            yield from cluster.rails
        case "switch":
            yield from cluster.switches
        case "switch port":
            yield from (port for switch in cluster.switches for port in switch.ports)
        case "cluster":
            yield cluster
