"""Against what it was before: a file beside the cluster file, with the middle and spread of every measurement."""

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
"""Labels that make two measurements the same thing, measured twice."""
HIGHER = ("bandwidth", "message_rate", "disk_bandwidth", "disk_operations", "algorithm_bandwidth", "bus_bandwidth")
LOWER = ("half_round_trip", "round_trip", "disk_latency", "collective_time")
JUDGED_STATS = (None, "p50")
"""Of a distribution its middle is judged: the tails of two short runs always differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One measurement as it was."""

    middle: float
    spread: float
    count: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a cluster did when it was well."""

    cluster: str
    run: str
    saved: float
    measures: Mapping[str, Kept]


_FILE = TypeAdapter(Baseline)


def key_of(measurement: Measurement, stat: str = "") -> str:
    """Return what a measurement is of, as text; `stat` asks for another number of the same distribution."""
    labels = {**measurement.labels, **({"stat": stat} if stat else {})}
    return " ".join([measurement.name, *(f"{name}={labels[name]}" for name in IDENTITY if name in labels)])


def higher_is_better(name: str) -> bool | None:
    """Return which way is good; None for what is not judged."""
    return True if name in HIGHER else False if name in LOWER else None


def is_judged(measurement: Measurement) -> bool:
    """Whether a measurement can be better or worse than another."""
    return higher_is_better(measurement.name) is not None and measurement.labels.get("stat") in JUDGED_STATS


def grouped(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Return the repeats of each judged measurement by what it is of."""
    groups: dict[str, list[Measurement]] = {}
    for one in measurements:
        if is_judged(one):
            groups.setdefault(key_of(one), []).append(one)
    return groups


def made_of(measurements: Iterable[Measurement], *, cluster: str, run: str, saved: float) -> Baseline:
    """Return a baseline of a run's measurements."""
    measures = {}
    for key, group in grouped(measurements).items():
        values = [one.value for one in group]
        measures[key] = Kept(middle=median(values), spread=spread(values), count=len(values), unit=group[0].unit)
    return Baseline(cluster=cluster, run=run, saved=saved, measures=measures)


def compared(group: list[Measurement], kept: Kept) -> tuple[Verdict, float]:
    """Judge repeats by what they were; returns the change as a share, positive where it got better."""
    now = median([one.value for one in group])
    change = (now - kept.middle) / kept.middle if kept.middle else 0.0
    better = change if higher_is_better(group[0].name) else -change
    noise = SIGMAS * max(kept.spread, spread([one.value for one in group]))
    if better >= -WARN_WORSE or abs(now - kept.middle) <= noise:
        return Verdict.OK, better
    return (Verdict.FAIL if better < -FAIL_WORSE else Verdict.WARN), better


def path_beside(cluster_file: Path) -> Path:
    """Return where the baseline of a cluster file is kept."""
    return cluster_file.with_name(f"{cluster_file.stem}.baseline.json")


def read(path: Path) -> Baseline | None:
    """Return the baseline of a file; None where there is none."""
    try:
        return _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no baseline"
        raise UsageError(
            f"{path} cannot be used: {reason}", hint="remove it, or make it anew with --save-baseline"
        ) from error


def write(path: Path, baseline: Baseline) -> None:
    """Keep a baseline."""
    try:
        write_atomically(path, to_json(baseline, indent=1))
    except OSError as error:
        raise UsageError(f"the baseline cannot be written to {path}: {os_reason(error)}") from error
