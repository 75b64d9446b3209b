"""The rules of `capture`: each finds what is wrong in the recorded packets; a cause explains its effects.

Nothing wrong is ok only if a rule could judge: without the packets that it needs it is skipped, and with recorders that
dropped packets it may be unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from railbed.capture import rules
from railbed.capture.analysis.results import Analysis
from railbed.capture.subjects import ClusterView, RecordingView, paths_of, ports_of
from railbed.model.text import plural
from railbed.rules.book import RuleBook
from railbed.rules.rule import Scope, Subject


def _subjects(scope: Scope, analysis: Analysis) -> Sequence[Subject]:
    match scope:
        case "port":
            return ports_of(analysis)
        case "path":
            return paths_of(analysis)
        case "recording":
            return [RecordingView(analysis, recording) for recording in analysis.recordings]
        case "cluster":
            return [ClusterView(analysis)]
        case _:
            return []


def _missing(analysis: Analysis) -> str:
    """Return why packets are missing from the analysis; empty if none are, as far as anybody counted."""
    dropped = sum(recording.dropped or 0 for recording in analysis.recordings)
    if dropped:
        return f"the recorders dropped {plural(dropped, 'packet')}"
    return f"{plural(analysis.left_out, 'packet')} of further flows were not analysed" if analysis.left_out else ""


def _same_place(_analysis: Analysis, first: str, second: str) -> bool:
    """Whether two subjects are the same path, in either direction, or one is a part of the other."""
    here, there = set(first.split(" → ")), set(second.split(" → "))
    return here <= there or there <= here or "cluster" in (first, second)


CAPTURE_BOOK: RuleBook[Analysis] = RuleBook(
    package=rules,
    subjects=_subjects,
    sums_up=True,
    certainty="likely",
    no_subject="no RDMA packets were recorded",
    missing=_missing,
    same_place=_same_place,
    order=lambda finding: (finding.verdict.rank, finding.since or 0.0),
)
