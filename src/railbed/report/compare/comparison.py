"""Two runs side by side: the numbers that changed, the settings that differ, and what only one of them has.

Whether a number changed follows from its repeats, and is inconclusive if there are too few of them.

Numbers are compared by their factor, so that half and twice are equally far: the interval of the difference of the
logarithms, or of the values themselves if some are not above zero. It is Welch's for repeats. Consecutive steps are
similar, so a measure over steps counts as ten values, each the median of a tenth of the steps; if both runs have the
same steps, they are compared in pairs, so that variations which both share from step to step are not noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, expm1, inf, isfinite, log
from pathlib import Path
from typing import Literal

from railbed import clusterfile
from railbed.errors import ClusterFileError
from railbed.model.record import Change, Finding
from railbed.model.statistics import Difference, median, paired_difference, separate_difference
from railbed.present.bench import Labels, what
from railbed.present.wording import plural
from railbed.report.compare.settings import Lone, SettingChange, find_lone, settings, sides
from railbed.report.reading.run import RunData
from railbed.report.reading.series import Points

Outcome = Literal["changed", "unchanged", "unclear"]
CONFIDENCE = 0.99
LEAST_SAMPLES = 3
"""Per run: fewer samples do not show how much they vary."""
MOST_BLOCKS = 10
LEAST = 0.05
"""Smaller changes are not reported, even if there is little noise."""
SAME = 0.10
"""A number did not change if the whole interval is within this share."""
FEW, SCATTERED = "too few samples", "its samples vary too much"
MOST_LOG = 700.0
"""A factor beyond e to this power overflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The judgement of a change."""

    outcome: Outcome
    why: str = ""
    """Why it is unclear."""
    reach: float | None = None
    """The range of chance: as a logarithm of the factor, or in its unit; None if unknown."""
    by_factor: bool = True
    """Whether it was compared by its factor."""


def blocks(values: Sequence[float]) -> list[float]:
    """Return the medians of up to ten intervals of a measure over steps."""
    count = min(len(values), MOST_BLOCKS)
    edges = [round(at * len(values) / count) for at in range(count + 1)] if count else [0]
    return [median(values[first:last]) for first, last in pairwise(edges)]


def factor(before: float, after: float) -> float | None:
    """Return after over before; None if one of them is zero or their signs differ."""
    if not before or not after or (before < 0) != (after < 0):
        return None
    quotient = after / before
    # The quotient of very different numbers is zero or infinite, which has no logarithm.
    return quotient if 0 < quotient < inf else exp(max(-MOST_LOG, min(MOST_LOG, _log_factor(before, after))))


def _log_factor(before: float, after: float) -> float:
    return log(abs(after)) - log(abs(before))


def distance(before: float, after: float) -> float:
    """Return the distance of two values, the same in both directions; from and to zero is farthest."""
    if before == after:
        return 0.0
    return abs(_log_factor(before, after)) if factor(before, after) is not None else inf


def judge(before: Sequence[float], after: Sequence[float], *, paired: bool = False) -> Judged:
    """Judge the samples of two runs, which must be finite; `paired` samples correspond to each other."""
    difference = paired_difference if paired else separate_difference
    by_factor = min(*before, *after) > 0
    if sorted(before) == sorted(after) or len({*before, *after}) == 1:
        return Judged(outcome="unchanged", reach=0.0, by_factor=by_factor)
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return Judged(outcome="unclear", why=FEW, by_factor=by_factor)
    if by_factor:
        outcome, reach = _decide(difference, before, after, log, (log(1 + LEAST), log(1 + SAME)))
        return Judged(outcome=outcome, why=SCATTERED if outcome == "unclear" else "", reach=reach)
    # Squares of very large numbers overflow, so they are scaled down.
    largest = max(abs(value) for value in (*before, *after))
    usual = max(abs(median(before)), abs(median(after))) / largest
    outcome, reach = _decide(difference, before, after, lambda value: value / largest, (LEAST * usual, SAME * usual))
    return Judged(
        outcome=outcome, why=SCATTERED if outcome == "unclear" else "", reach=reach * largest, by_factor=False
    )


def _decide(
    difference: Callable[[Sequence[float], Sequence[float], float], Difference],
    before: Sequence[float],
    after: Sequence[float],
    scaled: Callable[[float], float],
    bounds: tuple[float, float],
) -> tuple[Outcome, float]:
    """Judge on this scale; also return the range of chance on it."""
    least, most = bounds
    first, second = [scaled(value) for value in before], [scaled(value) for value in after]
    interval = difference(first, second, CONFIDENCE)
    reach, moved = interval.high - interval.mean, median(second) - median(first)
    # The interval is that of means, which a single outlier moves, rather than of the medians that are shown.
    if interval.is_seen and abs(moved) > least and moved * interval.mean > 0:
        return "changed", reach
    within = max(abs(interval.low), abs(interval.high), abs(moved)) <= most
    return ("unchanged" if within else "unclear"), reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One number in both runs."""

    name: str
    labels: Labels
    unit: str
    before: float
    after: float
    judged: Judged
    samples: tuple[int, int]
    """The number of samples in each run."""
    over_steps: bool = False
    """Whether the samples are steps (of the second half of both runs) or repeats."""

    @property
    def of(self) -> str:
        """Its labels, as text."""
        return ", ".join(f"{name} {value}" for name, value in self.labels)

    @property
    def share(self) -> float | None:
        """The change, as a share of the value before; None if that was (almost) zero."""
        if self.before == self.after:
            return 0.0
        share = (self.after - self.before) / abs(self.before) if self.before else inf
        return share if isfinite(share) else None

    @property
    def factor(self) -> float | None:
        """After over before; None if one of them is zero or their signs differ."""
        return factor(self.before, self.after)

    @property
    def noise(self) -> float | None:
        """The range of chance, in its unit; None if unknown."""
        reach = self.judged.reach
        if reach is None or not self.judged.by_factor:
            return reach
        noise = abs(self.before) * expm1(min(reach, MOST_LOG))
        return noise if isfinite(noise) else None

    @property
    def is_beyond_noise(self) -> bool:
        """Whether it changed."""
        return self.judged.outcome == "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """The differences between two runs."""

    numbers: Sequence[Changed]
    lone: Sequence[Lone]
    """What only one of the runs has."""
    settings: Sequence[SettingChange]
    """Settings that differ between the runs."""
    findings: Sequence[tuple[Finding | None, Finding | None]]
    """Findings with different verdicts, or that only one run has."""
    cluster: Sequence[Change]
    cluster_unread: str = ""
    """Why the cluster files were not compared."""

    @property
    def changed(self) -> list[Changed]:
        """The numbers that changed, the largest change first."""
        return self._of("changed")

    @property
    def unchanged(self) -> list[Changed]:
        """The numbers that did not change."""
        return self._of("unchanged")

    @property
    def unclear(self) -> list[Changed]:
        """Numbers whose samples are inconclusive."""
        return self._of("unclear")

    def _of(self, outcome: Outcome) -> list[Changed]:
        numbers = [changed for changed in self.numbers if changed.judged.outcome == outcome]
        return sorted(numbers, key=lambda changed: -distance(changed.before, changed.after))

    @property
    def shared(self) -> frozenset[tuple[str, str]]:
        """The labels that all numbers have in common."""
        labels = [frozenset(changed.labels) for changed in self.numbers]
        return frozenset.intersection(*labels) if len(labels) > 1 else frozenset()

    def in_short(self) -> str:
        """Return how many numbers changed, as text."""
        words = [f"{plural(len(self.changed), 'number')} changed", f"{len(self.unchanged):,} did not"]
        for why, has in ((FEW, "too few samples"), (SCATTERED, "samples that vary too much")):
            if several := sum(changed.judged.why == why for changed in self.unclear):
                words.append(f"{several:,} {'has' if several == 1 else 'have'} {has}")
        return ", ".join(words) if self.numbers else "the runs have no number in common"


def compare_runs(before: RunData, after: RunData) -> RunComparison:
    """Compare two runs."""
    first, second = _numbers(before), _numbers(after)
    both = [key for key in first if key in second]
    changes, unread = _cluster(before, after)
    return RunComparison(
        numbers=[_compare(key, first[key], second[key]) for key in both],
        lone=[*_lone_numbers(first, second), *find_lone(before, after)],
        settings=settings(before, after),
        findings=list(_findings(before, after)),
        cluster=changes,
        cluster_unread=unread,
    )


Key = tuple[str, Labels, str]
"""Name, labels and unit."""


Samples = Sequence[float] | Points
"""The repeats of a number, or its values over steps."""


def _numbers(run: RunData) -> dict[Key, Samples]:
    """Return the samples of everything measured."""
    groups: dict[Key, list[float]] = {}
    for measurement in run.measurements:
        if isfinite(measurement.value):
            groups.setdefault((measurement.name, what(measurement.labels), measurement.unit), []).append(
                measurement.value
            )
    samples: dict[Key, Samples] = {**groups}
    for name, series in run.series.items():
        known = {step: value for step, value in zip(*series.mean(), strict=True) if isfinite(value)}
        if known:
            samples[name, (), series.unit] = Points(list(known), list(known.values()))
    return samples


def _select_settled(before: Points, after: Points) -> tuple[list[float], list[float], bool]:
    """Return the values of the second half of the steps, and whether they are of the same steps."""
    common = sorted({*before.steps} & {*after.steps})
    half = common[len(common) // 2 :]
    if len(half) < LEAST_SAMPLES:
        first, second = (list(points.values[len(points.values) // 2 :]) for points in (before, after))
        return first, second, False
    first, second = (
        [known[step] for step in half] for known in (dict(zip(*points, strict=True)) for points in (before, after))
    )
    return first, second, True


def _lone_numbers(first: Mapping[Key, Samples], second: Mapping[Key, Samples]) -> Iterator[Lone]:
    for where, ours, others in sides(first, second):
        names: dict[str, list[str]] = {}
        known = {name for name, _, _ in others}
        for name, labels, unit in ours:
            if (name, labels, unit) not in others:
                names.setdefault(name, []).append(", ".join(f"{label} {value}" for label, value in labels))
        for name, of in names.items():
            yield Lone(kind="measure", name=name, where=where, of=of if name in known else (), count=len(of))


def _compare(key: Key, before: Samples, after: Samples) -> Changed:
    name, labels, unit = key
    over_steps = isinstance(before, Points) and isinstance(after, Points)
    if isinstance(before, Points) and isinstance(after, Points):
        first, second, paired = _select_settled(before, after)
        judged = judge(blocks(first), blocks(second), paired=paired)
    else:
        first, second = (list(values.values if isinstance(values, Points) else values) for values in (before, after))
        judged = judge(first, second)
    return Changed(
        name=name,
        labels=labels,
        unit=unit,
        before=median(first),
        after=median(second),
        judged=judged,
        samples=(len(first), len(second)),
        over_steps=over_steps,
    )


def _findings(before: RunData, after: RunData) -> Iterator[tuple[Finding | None, Finding | None]]:
    first = {(finding.check, finding.subject): finding for finding in before.findings}
    second = {(finding.check, finding.subject): finding for finding in after.findings}
    for key in dict.fromkeys([*first, *second]):
        finding, other = first.get(key), second.get(key)
        if finding is None or other is None or finding.verdict is not other.verdict:
            yield finding, other


def _cluster(before: RunData, after: RunData) -> tuple[Sequence[Change], str]:
    try:
        read = [
            clusterfile.loads(run.cluster_text, name=f"{Path(run.summary.id)}/cluster.yaml") for run in (before, after)
        ]
    except ClusterFileError as error:
        return (), error.message.splitlines()[0]
    return clusterfile.difference(*read), ""
