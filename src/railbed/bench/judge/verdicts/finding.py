"""Build a finding, with a remedy only if something is wrong."""

from __future__ import annotations

from railbed.model.record import Finding, Verdict


def finding(  # noqa: PLR0917  (the fields of a finding, in their order)
    check: str,
    subject: str,
    verdict: Verdict,
    expected: str,
    observed: str,
    why: str,
    *,
    remedy: str = "",
    evidence: str = "",
) -> Finding:
    """Return a finding; drop the remedy of a passing one."""
    return Finding(
        check=check,
        subject=subject,
        verdict=verdict,
        expected=expected,
        observed=observed,
        why=why,
        remedy=remedy if verdict in (Verdict.FAIL, Verdict.WARN) else "",
        evidence=evidence,
    )
