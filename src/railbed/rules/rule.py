"""The form of a rule: a pure function of evidence, with its own page of documentation.

A rule's file has a docstring with four headings (What, Why, Fix, Source), a `judge` generator, and one `RULE`. The
scope is what `judge` is called for. A rule of `check` yields a judgement of each subject; those of `diagnose` and
`capture` yield one for each thing that went wrong, and nothing if nothing did. Reading what is not known ends the
judgement of a subject with the reason, and a rule raises `NotJudged` by itself if it cannot judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Any, Generic, Literal, Protocol, TypeVar

from railbed.model.probe import Probe
from railbed.model.reading import Unknown
from railbed.rules.judgement import Judgement

Scope = Literal[
    "node", "port", "RDMA port", "rail", "switch", "switch port", "BMC", "cable", "path", "recording", "cluster"
]
Stage = Literal["power", "cabling", "BIOS", "host", "card", "switch", "rail", "environment"]
"""When a cluster is brought up, in this order."""
HEADINGS = ("What", "Why", "Fix", "Source")


class Subject(Protocol):
    """What a rule judges."""

    @property
    def subject(self) -> str:
        """Its name in a finding."""


class NotJudged(Exception):
    """Raised if a subject cannot be judged; the message is the reason."""


class Absent(NotJudged):
    """Raised if a subject has none of what the rule judges, such as a path that carries only answers."""


class Unread(NotJudged):
    """Raised on reading facts that are unknown."""

    def __init__(self, unknown: Unknown, device: str) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown
        self.device = device


class Unsampled(NotJudged):
    """Raised on reading a series that was not recorded."""

    def __init__(self, meter: str, place: str) -> None:
        super().__init__(f"{meter} was not measured on {place}")


@dataclass(frozen=True, slots=True)
class HandStep:
    """What a person does or looks at, because railbed cannot."""

    subject: str
    """The subject of the findings that show whether it was done."""
    text: str
    """What to do, with the placeholders of the Fix; the same for several subjects is one step."""
    proven: bool = True
    """Whether it was done if the rule passes."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[S]):
    """One rule."""

    name: str
    title: str
    """What is required, or what went wrong, in a few words."""
    doc: str
    """The module's docstring: pass `__doc__`."""
    scope: Scope
    judge: Callable[[S], Iterator[Judgement]]
    needs: tuple[Probe[Any] | str, ...] = ()
    """The probes that it reads, or the names of the meters without which it cannot judge."""
    unless: Callable[[S], str] | None = None
    """Returns why the cluster file alone makes it pointless to judge a subject, for which nothing is read then."""
    essential: bool = False
    """Training depends on it: `train` judges it first, and `check` does not pass while it is unknown."""
    on_request: bool = False
    """Judged only if it is named: most clusters do without."""
    at_restart: bool = False
    """Judged again when the ranks of a training restart: a person may have changed it meanwhile. Its probes take one
    round, each node for itself, and hardly load a node."""
    yields_to: tuple[str, ...] = ()
    """Rules whose verdict about the same place explains this one, at the same time if it is about a time."""
    yields_anywhere: tuple[str, ...] = ()
    """Rules whose verdict explains this one, wherever it is: all nodes wait for one."""
    stage: Stage | None = None
    """When it is judged while a cluster is brought up; None: as its scope suggests."""
    by_hand: Callable[[S], Iterator[HandStep]] | None = None
    """Yields what a person does before a subject can pass, from the cluster file alone."""
    rank: int = 1000
    """The place of its fix among those of a node: first the machine, then the link, then what runs over it. A fix that
    really depends on another names it (`Fix.after`)."""
    needs_all: bool = False
    """Whether evidence that was lost could have been what matters: then nothing wrong is unknown."""

    @property
    def probes(self) -> tuple[Probe[Any], ...]:
        """The probes that it reads."""
        return tuple(need for need in self.needs if isinstance(need, Probe))

    def pointless(self, subject: S) -> str:
        """Return why it need not judge a subject; empty if it has to."""
        return self.unless(subject) if self.unless else ""

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of what it needs."""
        return tuple(need.name if isinstance(need, Probe) else need for need in self.needs)

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
