"""The form of a rule: a pure function of a run's evidence, with its own page of documentation.

Like a check, a rule's file has a docstring with four headings (What, Why, Fix, Source), a `judge` generator, and one
`RULE`. The scope is what `judge` is called for. It yields a judgement for each thing that went wrong, and nothing if
nothing did. It gets series with `read`, which ends the judgement of a subject that was not measured: the rule is
skipped there, with the reason. `yields_to` lists the rules whose verdict explains this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from railbed.check.explain import YieldingRule
from railbed.check.form import Scope
from railbed.diagnose.chart import shown
from railbed.diagnose.signal import Signal, Span
from railbed.model.record import Certainty, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Something that went wrong; the caller turns it into a finding."""

    verdict: Verdict
    observed: str
    span: Span | None = None
    certainty: Certainty = "likely"
    expected: str = ""
    remedy: str = ""
    """What to do in this case; without it, the rule's Fix is shown."""
    evidence: str = ""
    subject: str = ""
    """Overrides the judged subject, for a rule over a rail or the cluster that blames a node or port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(YieldingRule):
    """One rule."""

    scope: Scope
    needs: tuple[str, ...]
    """The meters without which it cannot judge."""
    judge: Callable[[Any], Iterator[Judgement]]


class _Texts(TypedDict, total=False):
    """Further texts of a judgement."""

    expected: str
    remedy: str
    evidence: str
    subject: str


def fail(
    observed: str, span: Span | None, *signals: Signal, certainty: Certainty = "likely", **texts: Unpack[_Texts]
) -> Judgement:
    """Something is broken, or makes training much slower; the signals are the evidence."""
    evidence = _evidence(signals, span, texts.pop("evidence", ""))
    judgement = Judgement(verdict=Verdict.FAIL, observed=observed, span=span, certainty=certainty, evidence=evidence)
    return replace(judgement, **texts)


def warn(
    observed: str, span: Span | None, *signals: Signal, certainty: Certainty = "likely", **texts: Unpack[_Texts]
) -> Judgement:
    """Something costs a little, or may become a problem; the signals are the evidence."""
    return replace(fail(observed, span, *signals, certainty=certainty, **texts), verdict=Verdict.WARN)


def _evidence(signals: Iterable[Signal], span: Span | None, text: str) -> str:
    return "\n".join([*(shown(signal, span) for signal in signals), *([text] if text else [])])
