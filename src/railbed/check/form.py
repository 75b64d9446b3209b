"""What the rules of `check` and of `diagnose` have in common: their documentation, and the subjects they judge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Literal, Protocol

Scope = Literal["node", "port", "rail", "switch", "switch port", "cluster"]
HEADINGS = ("What", "Why", "Fix", "Source")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedRule:
    """A rule as people look it up."""

    name: str
    title: str
    """What is required, or what went wrong, in a few words."""
    doc: str
    """The module's docstring: pass `__doc__`."""

    @property
    def sections(self) -> dict[str, str]:
        """The text under each of the four headings, on one line."""
        return {heading: _section(self.doc, heading) for heading in HEADINGS}

    @property
    def why(self) -> str:
        """Why it matters to training."""
        return _section(self.doc, "Why")

    @property
    def fix(self) -> str:
        """The general remedy."""
        return _section(self.doc, "Fix")


@cache
def _section(doc: str, heading: str) -> str:
    pattern = rf"^{heading}\n-+\n(.*?)(?=^(?:{'|'.join(HEADINGS)})\n-+\n|\Z)"
    match = re.search(pattern, cleandoc(doc), re.MULTILINE | re.DOTALL)
    if not match:
        raise ValueError(f"a rule has no section {heading!r}: {doc.splitlines()[0]}")
    return " ".join(match.group(1).split())


class Subject(Protocol):
    """What a rule judges."""

    @property
    def subject(self) -> str:
        """Its name in a finding."""


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


def subjects_of(scope: Scope, cluster: ClusterParts) -> Iterator[Subject]:
    """Yield everything that a rule of this scope is called for."""
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
