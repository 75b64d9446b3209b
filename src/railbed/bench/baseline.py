"""The baseline: a file beside the cluster file with the median and spread of every measurement of a good run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from railbed.errors import UsageError, os_reason
from railbed.model.record import Measurement, Verdict
from railbed.model.statistics import median, spread
from railbed.store import write_atomically

WARN_WORSE, FAIL_WORSE = 0.05, 0.10
SIGMAS = 3.0
IDENTITY = ("test", "from", "to", "node", "rail", "pattern", "direction", "size", "streams", "memory", "stat", "engine")
"""Two measurements with the same values for these labels are repeats of each other."""
HIGHER = ("bandwidth", "message_rate", "disk_bandwidth", "disk_operations", "algorithm_bandwidth", "bus_bandwidth")
LOWER = ("half_round_trip", "round_trip", "disk_latency", "collective_time")
JUDGED_STATS = (None, "p50")
"""Only the median of a distribution is judged: the tails of two short runs always differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineEntry:
    """One measurement in the baseline."""

    middle: float
    spread: float
    count: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a cluster delivered when it was healthy."""

    cluster: str
    run: str
    saved: float
    measures: Mapping[str, BaselineEntry]


_FILE = TypeAdapter(Baseline)


def key_of(measurement: Measurement, stat: str = "") -> str:
    """Return the identity of a measurement as text; `stat` selects another number of the same distribution."""
    labels = {**measurement.labels, **({"stat": stat} if stat else {})}
    return " ".join([measurement.name, *(f"{name}={labels[name]}" for name in IDENTITY if name in labels)])


def higher_is_better(name: str) -> bool | None:
    """Return whether more is better; None for measurements that are not judged."""
    return True if name in HIGHER else False if name in LOWER else None


def is_judged(measurement: Measurement) -> bool:
    """Whether a measurement can be better or worse than another."""
    return higher_is_better(measurement.name) is not None and measurement.labels.get("stat") in JUDGED_STATS


def group_repeats(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Return the judged measurements grouped into repeats, by their identity."""
    groups: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        if is_judged(measurement):
            groups.setdefault(key_of(measurement), []).append(measurement)
    return groups


def make_baseline(measurements: Iterable[Measurement], *, cluster: str, run: str, saved: float) -> Baseline:
    """Return a baseline from the measurements of a run."""
    measures = {}
    for key, group in group_repeats(measurements).items():
        values = [measurement.value for measurement in group]
        measures[key] = BaselineEntry(
            middle=median(values), spread=spread(values), count=len(values), unit=group[0].unit
        )
    return Baseline(cluster=cluster, run=run, saved=saved, measures=measures)


def compare(group: list[Measurement], saved: BaselineEntry) -> tuple[Verdict, float]:
    """Judge repeats by the baseline; return the verdict and the relative change, positive for an improvement."""
    values = [measurement.value for measurement in group]
    now = median(values)
    change = (now - saved.middle) / saved.middle if saved.middle else 0.0
    better = change if higher_is_better(group[0].name) else -change
    noise = SIGMAS * max(saved.spread, spread(values))
    if better >= -WARN_WORSE or abs(now - saved.middle) <= noise:
        return Verdict.OK, better
    return (Verdict.FAIL if better < -FAIL_WORSE else Verdict.WARN), better


def path_beside(cluster_file: Path) -> Path:
    """Return the path of the baseline of a cluster file."""
    return cluster_file.with_name(f"{cluster_file.stem}.baseline.json")


def read(path: Path) -> Baseline | None:
    """Return the baseline in a file; None if the file does not exist."""
    try:
        return _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a baseline"
        raise UsageError(
            f"cannot use {path}: {reason}", hint="remove it, or replace it with --save-baseline"
        ) from error


def write(path: Path, baseline: Baseline) -> None:
    """Write a baseline to a file."""
    try:
        write_atomically(path, to_json(baseline, indent=1))
    except OSError as error:
        raise UsageError(f"cannot write the baseline to {path}: {os_reason(error)}") from error
