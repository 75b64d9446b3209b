"""What a rule concludes about a subject, and what proves it; the engine turns it into a finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypedDict, Unpack

from railbed.model.fix import Fix
from railbed.model.record import Certainty, Verdict


class Span(NamedTuple):
    """From one time to another."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end - self.start

    def widen(self, seconds: float) -> Span:
        """Return the span with some time before and after it: devices are not sampled at the same moment."""
        return Span(self.start - seconds, self.end + seconds)

    def overlaps(self, other: Span) -> bool:
        """Whether the two have a moment in common."""
        return self.start <= other.end and other.start <= self.end

    def has_any(self, moments: Iterable[float]) -> bool:
        """Whether one of some times is in it."""
        return any(self.start <= moment <= self.end for moment in moments)


class Proof(Protocol):
    """What shows that a verdict is right: a series, or packets."""

    def proves(self, span: Span | None, /) -> str:
        """Return it as a line of evidence about a span."""

    @property
    def when(self) -> Span | None:
        """The time that it is about by itself; None for a series, which covers the whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a rule concludes about a subject."""

    verdict: Verdict
    observed: str
    expected: str = ""
    remedy: str = ""
    """Advice, if there is no fix. If something is wrong and there is neither, the rule's Fix is shown."""
    fix: Fix | None = None
    evidence: str = ""
    subject: str = ""
    """Overrides the judged subject, for a rule over a rail or the cluster that blames a node or port."""
    span: Span | None = None
    """When it was, if it is about a time."""
    certainty: Certainty | None = None
    essential: bool | None = None
    """Overrides whether training depends on it, for a subject that differs from the rule's others."""


class _Details(TypedDict, total=False):
    """Further fields of a judgement about something that is wrong."""

    expected: str
    remedy: str
    fix: Fix | None
    subject: str
    certainty: Certainty


def fail(
    observed: str, *proofs: Proof, span: Span | None = None, evidence: str = "", **details: Unpack[_Details]
) -> Judgement:
    """It is wrong, or makes training much slower."""
    return _wrong(Verdict.FAIL, observed, proofs, span, evidence, details)


def warn(
    observed: str, *proofs: Proof, span: Span | None = None, evidence: str = "", **details: Unpack[_Details]
) -> Judgement:
    """It works, but not as well or as safely as it could, or may become a problem."""
    return _wrong(Verdict.WARN, observed, proofs, span, evidence, details)


def ok(*, expected: str, observed: str, subject: str = "", evidence: str = "") -> Judgement:
    """It is as it should be."""
    return Judgement(verdict=Verdict.OK, expected=expected, observed=observed, subject=subject, evidence=evidence)


def unknown(*, expected: str, observed: str, remedy: str = "", subject: str = "", evidence: str = "") -> Judgement:
    """It cannot be determined; `observed` is the reason."""
    return Judgement(
        verdict=Verdict.UNKNOWN, expected=expected, observed=observed, remedy=remedy, subject=subject, evidence=evidence
    )


def skip(reason: str, *, expected: str = "", subject: str = "") -> Judgement:
    """It does not apply here; the reason may be the card or the policy."""
    return Judgement(verdict=Verdict.SKIPPED, expected=expected, observed=reason, subject=subject)


def _wrong(  # noqa: PLR0917  (what `fail` and `warn` pass on)
    verdict: Verdict, observed: str, proofs: tuple[Proof, ...], span: Span | None, evidence: str, details: _Details
) -> Judgement:
    lines = [*(proof.proves(span) for proof in proofs), *([evidence] if evidence else [])]
    return Judgement(
        verdict=verdict, observed=observed, span=span or _time_of(proofs), evidence="\n".join(lines), **details
    )


def _time_of(proofs: Iterable[Proof]) -> Span | None:
    """Return the time from the first to the last of some proofs; None if they are about no time."""
    times = [proof.when for proof in proofs if proof.when is not None]
    return Span(min(time.start for time in times), max(time.end for time in times)) if times else None
