"""Two runs side by side: what changed in the numbers beyond noise, in the findings, and in the cluster between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path

from railbed import clusterfile
from railbed.errors import ClusterFileError
from railbed.model.record import Change, Finding
from railbed.report.data import RunData
from railbed.report.series import median
from railbed.report.words import plural

WHEN = ("trial", "repeat", "iterations", "version", "step", "rank", "node_pid")
"""Labels that tell when and by what something was measured, not what."""
NORMAL_MAD = 1.4826
SIGMAS = 3.0
Labels = tuple[tuple[str, str], ...]
LEAST = 0.05
"""A change of less is not worth telling, however quiet the numbers are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One number in both runs."""

    name: str
    labels: Labels
    unit: str
    before: float
    after: float
    noise: float
    """How far repeats lie apart in the noisier of the two runs."""
    repeats: int = 1
    """In the run that has more of them; what was measured once tells nothing of its noise."""

    @property
    def of(self) -> str:
        """Its labels, as text."""
        return ", ".join(f"{name} {value}" for name, value in self.labels)

    @property
    def share(self) -> float | None:
        """The change, as a share of what it was; None where that was zero."""
        if self.before == self.after:
            return 0.0
        return (self.after - self.before) / abs(self.before) if self.before else None

    @property
    def is_beyond_noise(self) -> bool:
        """Whether it is a change at all."""
        moved = abs(self.after - self.before)
        return moved > self.noise and (self.share is None or abs(self.share) > LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What lies between two runs."""

    numbers: Sequence[Changed]
    only_before: int
    only_after: int
    """Numbers that one run has and the other has not."""
    findings: Sequence[tuple[Finding | None, Finding | None]]
    """Findings with another verdict, or that only one run has."""
    cluster: Sequence[Change]
    cluster_unread: str = ""
    """Why the cluster files were not compared."""

    @property
    def changed(self) -> list[Changed]:
        """The numbers that changed beyond noise, what changed most first."""
        return sorted(filter(lambda one: one.is_beyond_noise, self.numbers), key=_most_first)

    @property
    def unchanged(self) -> list[Changed]:
        """The numbers that did not."""
        return sorted((one for one in self.numbers if not one.is_beyond_noise), key=_most_first)

    @property
    def shared(self) -> frozenset[tuple[str, str]]:
        """The labels that all numbers have alike."""
        labels = [frozenset(one.labels) for one in self.numbers]
        return frozenset.intersection(*labels) if len(labels) > 1 else frozenset()

    def in_short(self, before: str, after: str) -> str:
        """Say how many numbers changed; `before` and `after` are the names of the runs."""
        told = f"{plural(len(self.changed), 'number')} changed beyond noise, {len(self.unchanged):,} did not"
        words = [told if self.changed else f"none of {plural(len(self.numbers), 'number')} changed beyond noise"]
        words += [f"{self.only_before:,} only in {before}"] if self.only_before else []
        words += [f"{self.only_after:,} only in {after}"] if self.only_after else []
        return "; ".join(words)


def _most_first(one: Changed) -> float:
    """Order by the factor of a change, so that a tenth is as much as tenfold; from zero is the most."""
    if not one.before or not one.after or (one.before < 0) != (one.after < 0):
        return 0.0 if one.before == one.after else -inf
    return -abs(log(one.after / one.before))


def compared(before: RunData, after: RunData) -> Compared:
    """Compare two runs."""
    first, second = dict(_numbers(before)), dict(_numbers(after))
    both = [key for key in first if key in second]
    changes, unread = _cluster(before, after)
    return Compared(
        numbers=[_changed(key, first[key], second[key]) for key in both],
        only_before=len(first) - len(both),
        only_after=len(second) - len(both),
        findings=list(_findings(before, after)),
        cluster=changes,
        cluster_unread=unread,
    )


Key = tuple[str, Labels, str]
"""Name, labels and unit."""


def _numbers(run: RunData) -> Iterator[tuple[Key, Sequence[float]]]:
    """Yield the repeats of everything measured; of a measure over steps, its second half, when it has settled."""
    groups: dict[Key, list[float]] = {}
    for one in run.measurements:
        groups.setdefault((one.name, _labels(one.labels), one.unit), []).append(one.value)
    yield from groups.items()
    for name, series in run.series.items():
        values = series.mean().values
        yield (name, (), series.unit), values[len(values) // 2 :]


def _labels(labels: Mapping[str, str | int]) -> Labels:
    return tuple((name, str(value)) for name, value in sorted(labels.items()) if name not in WHEN)


def _changed(key: Key, before: Sequence[float], after: Sequence[float]) -> Changed:
    noise = SIGMAS * max(_spread(before), _spread(after))
    name, labels, unit = key
    return Changed(
        name=name,
        labels=labels,
        unit=unit,
        before=median(before),
        after=median(after),
        noise=noise,
        repeats=max(len(before), len(after)),
    )


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return NORMAL_MAD * median([abs(value - middle) for value in values])


def _findings(before: RunData, after: RunData) -> Iterator[tuple[Finding | None, Finding | None]]:
    first = {(one.check, one.subject): one for one in before.findings}
    second = {(one.check, one.subject): one for one in after.findings}
    for key in dict.fromkeys([*first, *second]):
        one, other = first.get(key), second.get(key)
        if one is None or other is None or one.verdict is not other.verdict:
            yield one, other


def _cluster(before: RunData, after: RunData) -> tuple[Sequence[Change], str]:
    try:
        read = [
            clusterfile.loads(run.cluster_text, name=f"{Path(run.summary.id)}/cluster.yaml") for run in (before, after)
        ]
    except ClusterFileError as error:
        return (), error.message.splitlines()[0]
    return clusterfile.difference(*read), ""
