"""Against the others: what lags behind its like, named by rail, node, port or way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from railbed.bench.judge import baseline as before
from railbed.bench.judge.outliers import Outlier, Sample, find_outliers
from railbed.bench.judge.verdicts.finding import finding
from railbed.bench.judge.verdicts.paths import both_added_up, how, is_both
from railbed.bench.site import BenchSite
from railbed.model.amount import number
from railbed.model.record import Finding, Measurement, Verdict
from railbed.model.statistics import median

CHECK = "bench_outlier"
WHY = "One slow port slows every collective that passes it, and nothing but a comparison shows it."
OWN_LINKS = ("pair", "matrix", "rounds", "ring")
"""Patterns in which no two flows share a port in one direction: only those can be compared with each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Ways that were measured in the same manner, and what lags behind among them."""

    how: str
    unit: str
    samples: Sequence[Sample]
    outliers: Sequence[Outlier]


def alike_ways(measurements: Iterable[Measurement]) -> Iterator[Alike]:
    """Yield the measurements that can be compared with each other, compared."""
    measured = list(both_added_up(measurements))
    best: dict[str, float] = {}
    for one in measured:
        if one.labels.get("stat") == "min":
            best[before.key_of(one)] = min(one.value, best.get(before.key_of(one), one.value))
    alike: dict[tuple[str, ...], list[list[Measurement]]] = {}
    for group in before.grouped(measured).values():
        one = group[0]
        apart = str(one.labels.get("pattern", "")).startswith(OWN_LINKS)
        if apart and one.name in ("bandwidth", "half_round_trip", "round_trip"):
            names = ("test", "size", "pattern", "streams", "memory")
            key = (one.name, *(str(one.labels.get(name, "")) for name in names), str(is_both(one.labels)))
            alike.setdefault(key, []).append(group)
    for key, groups in alike.items():
        samples = [_sample(group, best.get(before.key_of(group[0], "min"))) for group in groups]
        found = find_outliers(samples, higher_is_better=before.higher_is_better(key[0]) is True)
        unit = "µs" if groups[0][0].unit == "us" else groups[0][0].unit
        yield Alike(how=how(groups[0][0].labels), unit=unit, samples=samples, outliers=found)


def against_others(site: BenchSite, measurements: Iterable[Measurement]) -> Iterator[Finding]:
    """Name what lags behind its like."""
    for alike in alike_ways(measurements):
        for outlier in alike.outliers:
            yield _outlier(site, outlier, alike.how, alike.unit)
        if not alike.outliers and len(alike.samples) >= 3:
            values = [sample.value for sample in alike.samples]
            observed = (
                f"{alike.how}: {number(min(values))} to {number(max(values))} {alike.unit} over {len(values)} ways"
            )
            yield finding(CHECK, "cluster", Verdict.OK, "ways that are alike", observed, WHY)


def _sample(group: Sequence[Measurement], best: float | None) -> Sample:
    labels = group[0].labels
    source, target, rail = (str(labels[name]) for name in ("from", "to", "rail"))
    value, trials = median([one.value for one in group]), tuple(int(one.labels["trial"]) for one in group)
    return Sample(source=source, target=target, rail=rail, value=value, best=best, trials=trials)


def _outlier(site: BenchSite, outlier: Outlier, how: str, unit: str) -> Finding:
    value = median([sample.value for sample in outlier.samples])
    subject, cable = _blamed(site, outlier)
    what = {"sends": "sends", "receives": "receives"}.get(outlier.kind, "does")
    return finding(
        CHECK,
        subject,
        # One way alone may have met a busy moment; what all ways of a port or rail do is no chance.
        Verdict.WARN if outlier.kind == "pair" else Verdict.FAIL,
        f"{number(outlier.usual)} {unit} as the others ({how})",
        f"{what} {number(value)} {unit} in {_ways(outlier.samples)}",
        WHY,
        remedy=_advice(outlier, cable),
        evidence="\n".join(
            f"{one.source} > {one.target} on {one.rail}: {number(one.value, 6)} {unit}" for one in outlier.samples
        ),
    )


def _ways(samples: Sequence[Sample]) -> str:
    """Return how many ways there were, and how often each was measured where that was more than once."""
    ways, each = (f"{len(samples)} ways", " each") if len(samples) > 1 else ("one way", "")
    times = min(len(sample.trials) for sample in samples)
    return f"{ways}, the middle of {times} measurements{each}" if times > 1 else ways


def _blamed(site: BenchSite, outlier: Outlier) -> tuple[str, str]:
    """Return the subject of a finding, and the cable that is to be looked at."""
    if outlier.kind in ("port", "sends", "receives"):
        node, _, rail = outlier.name.partition("/")
        port = site.port_on_rail(node, rail)
        return port.end.name, port.cable
    if outlier.kind == "pair":
        one = outlier.samples[0]
        port = site.port_on_rail(one.source, one.rail)
        return f"{port.end.name} > {one.target}", port.cable
    return outlier.name, ""


def _advice(outlier: Outlier, cable: str) -> str:
    if outlier.kind == "rail":
        return f"look at the switch of {outlier.name}: its speed, its queues, its uplinks"
    if outlier.kind == "node":
        return f"look at {outlier.name}: PCIe, processor frequency, what else runs there"
    to = f" to {cable}" if cable else ""
    return f"look at the cable{to} and its transceivers, then at the card: `railbed check` reads its error counters"
