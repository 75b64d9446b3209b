"""Judge paths against each other: which rail, node, port or single path lags behind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from railbed.bench.judge import baseline
from railbed.bench.judge.outliers import Outlier, Sample, find_outliers
from railbed.bench.judge.verdicts.finding import finding
from railbed.bench.judge.verdicts.paths import is_bidirectional, merge_directions, method_of
from railbed.bench.site import BenchSite
from railbed.model.record import Finding, Measurement, Verdict
from railbed.model.statistics import median
from railbed.model.text.amount import number, plural

CHECK = "bench_outlier"
WHY = "One slow port slows down every collective that uses it, and only a comparison reveals it."
OWN_LINKS = ("pair", "matrix", "rounds", "ring")
"""Patterns in which no two flows share a port in the same direction: only their paths are comparable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparablePaths:
    """Paths measured in the same way, and the outliers among them."""

    method: str
    unit: str
    samples: Sequence[Sample]
    outliers: Sequence[Outlier]


def comparable_paths(measurements: Iterable[Measurement]) -> Iterator[ComparablePaths]:
    """Group the measurements that can be compared with each other, and find the outliers of each group."""
    measured = list(merge_directions(measurements))
    best = _best_samples(measured)
    comparable: dict[tuple[str, ...], list[list[Measurement]]] = {}
    for repeats in baseline.group_repeats(measured).values():
        name, labels = repeats[0].name, repeats[0].labels
        has_own_link = str(labels.get("pattern", "")).startswith(OWN_LINKS)
        if has_own_link and name in ("bandwidth", "half_round_trip", "round_trip"):
            identity = ("test", "size", "pattern", "streams", "memory")
            key = (name, *(str(labels.get(label, "")) for label in identity), str(is_bidirectional(labels)))
            comparable.setdefault(key, []).append(repeats)
    for (name, *_), groups in comparable.items():
        samples = [_sample(repeats, best.get(baseline.key_of(repeats[0], "min"))) for repeats in groups]
        outliers = find_outliers(samples, higher_is_better=baseline.higher_is_better(name) is True)
        first = groups[0][0]
        unit = "µs" if first.unit == "us" else first.unit
        yield ComparablePaths(method=method_of(first.labels), unit=unit, samples=samples, outliers=outliers)


def _best_samples(measured: Iterable[Measurement]) -> dict[str, float]:
    """Return the shortest time of every latency, by its identity."""
    best: dict[str, float] = {}
    for measurement in measured:
        if measurement.labels.get("stat") == "min":
            key = baseline.key_of(measurement)
            best[key] = min(measurement.value, best.get(key, measurement.value))
    return best


def against_peers(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Report what lags behind comparable paths."""
    for group in comparable_paths(measurements):
        for outlier in group.outliers:
            yield _outlier(site, outlier, group)
        if not group.outliers and len(group.samples) >= 3:
            values = [sample.value for sample in group.samples]
            interval = f"{number(min(values))} to {number(max(values))} {group.unit}"
            observed = f"{group.method}: {interval} over {len(values)} paths"
            yield finding(CHECK, "cluster", Verdict.OK, "paths that perform alike", observed, WHY)


def _sample(repeats: Sequence[Measurement], best: float | None) -> Sample:
    labels = repeats[0].labels
    source, target, rail = (str(labels[name]) for name in ("from", "to", "rail"))
    value, trials = (
        median([repeat.value for repeat in repeats]),
        tuple(int(repeat.labels["trial"]) for repeat in repeats),
    )
    return Sample(source=source, target=target, rail=rail, value=value, best=best, trials=trials)


def _outlier(site: BenchSite, outlier: Outlier, group: ComparablePaths) -> Finding:
    value = median([sample.value for sample in outlier.samples])
    subject, cable = _suspect(site, outlier)
    unit = group.unit
    verb = "takes" if unit == "µs" else outlier.kind if outlier.kind in ("sends", "receives") else "delivers"
    slowest_first = sorted(outlier.samples, key=lambda sample: -abs(math.log(sample.value / outlier.usual)))
    return finding(
        CHECK,
        subject,
        # A single path may have been measured at a busy moment; all paths of a port or rail are no coincidence.
        Verdict.WARN if outlier.kind == "pair" else Verdict.FAIL,
        f"{number(outlier.usual)} {unit} like the others ({group.method})",
        f"{_describe_paths(slowest_first)}: {verb} {number(value)} {unit}{_describe_repeats(outlier.samples)}",
        WHY,
        remedy=_remedy(outlier, cable),
        evidence="\n".join(f"{_link(sample)}: {number(sample.value, 6)} {unit}" for sample in slowest_first),
    )


def _link(sample: Sample) -> str:
    return f"{sample.source} → {sample.target} {sample.rail}"


def _describe_paths(samples: Sequence[Sample]) -> str:
    """Return the first path by its ends, and how many others there are."""
    others = f" and {plural(len(samples) - 1, 'other path')}" if len(samples) > 1 else ""
    return f"{_link(samples[0])}{others}"


def _describe_repeats(samples: Sequence[Sample]) -> str:
    """Return what the value is a median of: paths, or measurements if each path has several."""
    times = min(len(sample.trials) for sample in samples)
    if times > 1:
        return f", the median of {times} measurements{' each' if len(samples) > 1 else ''}"
    return f", the median of {len(samples)} paths" if len(samples) > 1 else ""


def _suspect(site: BenchSite, outlier: Outlier) -> tuple[str, str]:
    """Return the subject of a finding, and the cable to inspect."""
    if outlier.kind in ("port", "sends", "receives"):
        node, _, rail = outlier.name.partition("/")
        port = site.port_on_rail(node, rail)
        return port.end.name, port.cable
    if outlier.kind == "pair":
        sample = outlier.samples[0]
        port = site.port_on_rail(sample.source, sample.rail)
        return f"{port.end.name} > {sample.target}", port.cable
    return outlier.name, ""


def _remedy(outlier: Outlier, cable: str) -> str:
    if outlier.kind == "rail":
        return f"inspect the switch of {outlier.name}: port speeds, queues, uplinks"
    if outlier.kind == "node":
        return f"inspect {outlier.name}: PCIe, processor frequency, other processes"
    to = f" to {cable}" if cable else ""
    return f"inspect the cable{to} and its transceivers, then the card: `railbed check` reads its error counters"
