"""What `bench` measured, grouped as people ask for it: one group for each test, size, pattern and way of measuring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.model.record import Measurement
from railbed.report.reading.series import median
from railbed.report.words import JOIN

SHOWN = {
    "bandwidth": "bandwidth",
    "half_round_trip": "half a round trip",
    "round_trip": "a whole round trip",
    "disk_bandwidth": "disk bandwidth",
    "disk_operations": "disk operations",
    "bus_bandwidth": "bus bandwidth",
    "algorithm_bandwidth": "algorithm bandwidth",
}
MIDDLE = (None, "p50")


WHEN = ("trial", "repeat", "iterations", "version", "step", "rank", "node_pid")
"""Labels that tell when and by what something was measured, not what."""
Labels = tuple[tuple[str, str], ...]


def what(labels: Mapping[str, str | int]) -> Labels:
    """Return the labels that tell what was measured."""
    return tuple((name, str(value)) for name, value in sorted(labels.items()) if name not in WHEN)


@dataclass(slots=True)
class Group:
    """Measurements of one thing, by way: from a node to another, or on a node."""

    test: str
    measure: str
    unit: str
    size: int | None
    over: str
    """The rail, or the engine of a collective."""
    how: str
    tool: str
    ways: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @property
    def values(self) -> list[float]:
        """The middle of the repeats of each way."""
        return [median(values) for values in self.ways.values()]

    @property
    def title(self) -> str:
        """The test and how it was done, in a few words."""
        return ", ".join(part for part in (self.test, self.how, self.over) if part)


def groups(measurements: Iterable[Measurement], stats: Sequence[str | None] = MIDDLE) -> list[Group]:
    """Return the groups in the order in which they were measured."""
    found: dict[tuple[object, ...], Group] = {}
    for one in measurements:
        labels = one.labels
        if one.name not in SHOWN or labels.get("stat") not in stats or "test" not in labels:
            continue
        size = labels.get("size")
        streams = f"{labels['streams']} streams" if labels.get("streams", 1) != 1 else ""
        ways = "both ways" if labels.get("direction") == "both" else ""
        words = (
            labels.get("pattern"),
            streams,
            ways,
            labels.get("arm"),
            "GPU" if labels.get("memory") == "gpu" else "",
        )
        how = ", ".join(str(word) for word in words if word)
        over = str(labels.get("rail") or labels.get("engine") or "")
        key = (labels["test"], one.name, size, over, how)
        group = found.setdefault(
            key,
            Group(
                test=str(labels["test"]),
                measure=one.name,
                unit="µs" if one.unit == "us" else one.unit,
                size=size if isinstance(size, int) else None,
                over=over,
                how=how,
                tool=str(labels.get("version") or labels.get("tool", "")),
            ),
        )
        way = (str(labels.get("from", labels.get("node", "all"))), str(labels.get("to", "")))
        group.ways.setdefault(way, []).append(one.value)
    return list(found.values())


def message_size(size: int | None) -> str:
    """Return a message's size as tests are asked for it: in powers of 1024 where it is one of them."""
    if size is None:
        return ""
    for unit, word in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{JOIN}{word}"
    return f"{size:,}{JOIN}B"
