"""How paths were measured, which of their numbers belong together, and which paths can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from railbed.bench import baseline
from railbed.bench.outliers import Outlier, PathSample, find_outliers
from railbed.model.record import Measurement
from railbed.model.statistics import median

OWN_LINKS = ("pair", "matrix", "rounds", "ring")
"""Patterns in which no two flows share a port in the same direction: only their paths are comparable."""


def is_bidirectional(labels: Mapping[str, str | int]) -> bool:
    """Whether both directions were measured at the same time: comparable only with the same."""
    return labels.get("direction") == "both"


def method_of(labels: Mapping[str, str | int]) -> str:
    """Return how something was measured, in brief: `iperf3 x8, rounds, both ways`."""
    streams = int(labels.get("streams", 1))
    many = f" x{streams}" if streams > 1 else ""
    return f"{labels['test']}{many}, {labels['pattern']}{', both ways' if is_bidirectional(labels) else ''}"


def merge_directions(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Yield all measurements, with the two directions of a bidirectional trial added up.

    How the two share a processor says nothing about the cable. perftest adds them up itself, iperf3 does not.
    """
    together: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for measurement in measurements:
        labels = measurement.labels
        if measurement.name == "bandwidth" and is_bidirectional(labels):
            key = tuple(labels.get(name) for name in ("trial", "pair", "rail"))
            together.setdefault(key, []).append(measurement)
        else:
            yield measurement
    for group in together.values():
        yield replace(group[0], value=sum(direction.value for direction in group))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparablePaths:
    """Paths measured in the same way, and the outliers among them."""

    method: str
    unit: str
    samples: Sequence[PathSample]
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


def _sample(repeats: Sequence[Measurement], best: float | None) -> PathSample:
    labels = repeats[0].labels
    source, target, rail = (str(labels[name]) for name in ("from", "to", "rail"))
    value, trials = (
        median([repeat.value for repeat in repeats]),
        tuple(int(repeat.labels["trial"]) for repeat in repeats),
    )
    return PathSample(source=source, target=target, rail=rail, value=value, best=best, trials=trials)
