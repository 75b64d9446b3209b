"""How a path was measured, and which of its numbers belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from railbed.model.record import Measurement


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
