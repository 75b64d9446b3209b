"""The form of a rule: a pure function of an analysis, with its own page of documentation.

Like a check, a rule's file has a docstring with four headings (What, Why, Fix, Source), a `judge` generator, and one
`RULE`. The scope is what `judge` is called for. It yields a judgement for each thing that is wrong, and nothing if
nothing is. It raises `NotJudged` if the recordings do not show enough: the rule is skipped there, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

from railbed.capture.proof import Proof
from railbed.check.explain import YieldingRule
from railbed.model.record import Certainty, Verdict

Scope = Literal["port", "path", "recording", "cluster"]


class NotJudged(Exception):
    """Raised by a rule that cannot judge a subject; the message is the reason."""


class NothingThere(NotJudged):
    """Raised by a rule if the subject has none of what it judges, such as a path that carries only answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Something that is wrong; the caller turns it into a finding."""

    verdict: Verdict
    observed: str
    proofs: tuple[Proof, ...] = ()
    certainty: Certainty = "likely"
    expected: str = ""
    remedy: str = ""
    """What to do in this case; without it, the rule's Fix is shown."""
    subject: str = ""
    """Overrides the judged subject, for a rule over a path or the cluster that blames a port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(YieldingRule):
    """One rule."""

    scope: Scope
    judge: Callable[[Any], Iterator[Judgement]]
    needs_all: bool = False
    """Whether a packet that a recorder dropped could have been the one that matters: then nothing wrong is unknown."""


class _Texts(TypedDict, total=False):
    """Further texts of a judgement."""

    expected: str
    remedy: str
    subject: str


def fail(observed: str, *proofs: Proof, certainty: Certainty = "likely", **texts: Unpack[_Texts]) -> Judgement:
    """Something is broken, or makes training much slower; the proofs are packets."""
    judgement = Judgement(verdict=Verdict.FAIL, observed=observed, proofs=proofs, certainty=certainty)
    return replace(judgement, **texts)


def warn(observed: str, *proofs: Proof, certainty: Certainty = "likely", **texts: Unpack[_Texts]) -> Judgement:
    """Something costs a little, or may become a problem; the proofs are packets."""
    return replace(fail(observed, *proofs, certainty=certainty, **texts), verdict=Verdict.WARN)
