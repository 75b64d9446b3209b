"""The form of a rule: a pure function of facts, with its own page of documentation.

A rule's file has a docstring with four headings (What, Why, Fix, Source), a `judge` generator, and one `CHECK`. The
scope is what `judge` is called for: each node, each of its ports on a rail, each rail, each switch, each of its
ports, each cable between a node and a switch, or the cluster once. Rules get facts with `read`; if they are unknown,
`read` ends the judgement of the subject, and the finding is `unknown` with the probe's reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from railbed.check.form import DocumentedRule, Scope
from railbed.check.site import CableView, NodeView, PortView, RailView, Site, SwitchPortView, SwitchView
from railbed.model.fix import Fix
from railbed.model.probe import Probe
from railbed.model.record import Verdict

S = TypeVar("S", NodeView, PortView, RailView, SwitchView, SwitchPortView, CableView, Site)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a rule concludes about a subject; the caller turns it into a finding."""

    verdict: Verdict
    expected: str
    observed: str
    remedy: str = ""
    """Advice, if there is no fix."""
    fix: Fix | None = None
    evidence: str = ""
    subject: str = ""
    """Overrides the judged subject, for a rule over a rail or the cluster that blames a node or port."""
    essential: bool | None = None
    """Overrides whether training depends on it, for a subject that differs from the rule's others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(DocumentedRule, Generic[S]):
    """One rule."""

    scope: Scope | Literal["cable"]
    needs: tuple[Probe[object], ...]
    judge: Callable[[S], Iterator[Judgement]]
    essential: bool = False
    """Training depends on it: `train` judges it first, and `check` does not pass while it is unknown."""
    on_request: bool = False
    """Judged only if it is named: most clusters do without."""
    at_restart: bool = False
    """Judged again when the ranks of a training restart: a person may have changed it meanwhile. Its probes take one
    round, each node for itself, and hardly load a node."""


def ok(*, expected: str, observed: str, subject: str = "", evidence: str = "") -> Judgement:
    """It is as it should be."""
    return Judgement(verdict=Verdict.OK, expected=expected, observed=observed, subject=subject, evidence=evidence)


def warn(
    *, expected: str, observed: str, fix: Fix | None = None, remedy: str = "", subject: str = "", evidence: str = ""
) -> Judgement:
    """It works, but not as well or as safely as it could. Without fix and remedy, the rule's Fix is shown."""
    return Judgement(
        verdict=Verdict.WARN,
        expected=expected,
        observed=observed,
        fix=fix,
        remedy=remedy,
        subject=subject,
        evidence=evidence,
    )


def fail(
    *, expected: str, observed: str, fix: Fix | None = None, remedy: str = "", subject: str = "", evidence: str = ""
) -> Judgement:
    """It is wrong. Without fix and remedy, the rule's Fix is shown."""
    return Judgement(
        verdict=Verdict.FAIL,
        expected=expected,
        observed=observed,
        fix=fix,
        remedy=remedy,
        subject=subject,
        evidence=evidence,
    )


def unknown(*, expected: str, observed: str, remedy: str = "", subject: str = "", evidence: str = "") -> Judgement:
    """It cannot be determined; `observed` is the reason."""
    return Judgement(
        verdict=Verdict.UNKNOWN, expected=expected, observed=observed, remedy=remedy, subject=subject, evidence=evidence
    )


def skip(reason: str, *, expected: str = "", subject: str = "") -> Judgement:
    """It does not apply here; the reason may be the card or the policy."""
    return Judgement(verdict=Verdict.SKIPPED, expected=expected, observed=reason, subject=subject)
