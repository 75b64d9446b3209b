"""The rules of `bench`: each judges the measurements of a run, from all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from railbed.bench import rules
from railbed.bench.baseline import Baseline
from railbed.bench.site import BenchSite
from railbed.model.record import Measurement
from railbed.rules.book import RuleBook


@dataclass(frozen=True, slots=True)
class BenchView:
    """What was measured, and what it is compared with."""

    site: BenchSite
    measurements: Sequence[Measurement]
    baseline: Baseline | None = None

    @property
    def subject(self) -> str:
        """The cluster as a whole."""
        return "cluster"


BENCH_BOOK: RuleBook[BenchView] = RuleBook(package=rules, subjects=lambda _scope, view: (view,), sums_up=False)
