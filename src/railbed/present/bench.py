"""Measurements of `bench` in groups: one for each test, size, pattern and method."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.model.meters import RECORDED
from railbed.model.record import Measurement
from railbed.model.statistics import median
from railbed.present.wording import JOIN

SHOWN = {meter.name: meter.title for meter in RECORDED.values() if meter.title}
MIDDLE = (None, "p50")


WHEN = ("trial", "repeat", "iterations", "version", "step", "rank", "node_pid")
"""Labels about when and with which tool something was measured, rather than what."""
Labels = tuple[tuple[str, str], ...]


def what(labels: Mapping[str, str | int]) -> Labels:
    """Return the labels that identify what was measured."""
    return tuple((name, str(value)) for name, value in sorted(labels.items()) if name not in WHEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of a group that people read, the same on every screen and in every report."""

    paths: int
    lowest: float
    median: float
    highest: float
    """Of the medians of the repeats of each path."""


@dataclass(slots=True)
class MeasurementGroup:
    """Measurements of one test, by path: from a node to another, or on a node."""

    test: str
    measure: str
    unit: str
    size: int | None
    over: str
    """The rail, or the engine of a collective."""
    arm: str
    pattern: str
    streams: int
    both_ways: bool
    on_gpu: bool
    tool: str
    paths: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def how(self) -> str:
        """A short description of how it was measured."""
        streams = f"{self.streams} streams" if self.streams != 1 else ""
        both_ways, gpu = "both ways" if self.both_ways else "", "GPU" if self.on_gpu else ""
        return ", ".join(part for part in (self.pattern, streams, both_ways, self.arm, gpu) if part)

    @property
    def values(self) -> list[float]:
        """The median of the repeats of each path."""
        return [median(values) for values in self.paths.values()]

    @property
    def summary(self) -> Summary:
        """What is shown of the paths together."""
        values = self.values
        return Summary(paths=len(values), lowest=min(values), median=median(values), highest=max(values))

    @property
    def title(self) -> str:
        """The test and a short description of the method."""
        return ", ".join(part for part in (self.test, self.how, self.over) if part)


def groups(
    measurements: Iterable[Measurement], stats: Sequence[str | None] = MIDDLE, measures: Collection[str] = SHOWN.keys()
) -> list[MeasurementGroup]:
    """Return the groups in the order in which they were measured."""
    by_key: dict[tuple[object, ...], MeasurementGroup] = {}
    for measurement in measurements:
        labels = measurement.labels
        if measurement.name not in measures or labels.get("stat") not in stats or "test" not in labels:
            continue
        group = _group(measurement)
        key = (group.test, group.measure, labels.get("size"), group.over, group.how)
        path = (str(labels.get("from", labels.get("node", "all"))), str(labels.get("to", "")))
        by_key.setdefault(key, group).paths.setdefault(path, []).append(measurement.value)
    return list(by_key.values())


def _group(measurement: Measurement) -> MeasurementGroup:
    labels = measurement.labels
    size, streams = labels.get("size"), labels.get("streams", 1)
    return MeasurementGroup(
        test=str(labels["test"]),
        measure=measurement.name,
        unit="µs" if measurement.unit == "us" else measurement.unit,
        size=size if isinstance(size, int) else None,
        over=str(labels.get("rail") or labels.get("engine") or ""),
        arm=str(labels.get("arm") or ""),
        pattern=str(labels.get("pattern") or ""),
        streams=int(streams) if str(streams).isdecimal() else 1,
        both_ways=labels.get("direction") == "both",
        on_gpu=labels.get("memory") == "gpu",
        tool=str(labels.get("version") or labels.get("tool", "")),
    )


def message_size(size: int | None, *, short: bool = False) -> str:
    """Return the size of a message, in powers of 1024 if it is a multiple: `64 KiB`, or `64K` if `short`."""
    if size is None:
        return ""
    for unit, word in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{word[0]}" if short else f"{size // unit}{JOIN}{word}"
    return str(size) if short else f"{size:,}{JOIN}B"
