"""How a way was measured, and what of it counts as one number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from railbed.model.record import Measurement


def is_both(labels: Mapping[str, str | int]) -> bool:
    """Whether both ways of a link were filled at the same time: that compares with its like only."""
    return labels.get("direction") == "both"


def how(labels: Mapping[str, str | int]) -> str:
    """Return how something was measured, in short: `iperf3 x8, rounds, both ways`."""
    streams = int(labels.get("streams", 1))
    many = f" x{streams}" if streams > 1 else ""
    return f"{labels['test']}{many}, {labels['pattern']}{', both ways' if is_both(labels) else ''}"


def both_added_up(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Yield all measurements, both ways of a trial as one: how two ways share a processor is no matter of a cable.

    perftest adds them up itself, iperf3 does not.
    """
    together: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for one in measurements:
        if one.name == "bandwidth" and is_both(one.labels):
            key = tuple(one.labels.get(name) for name in ("trial", "pair", "rail"))
            together.setdefault(key, []).append(one)
        else:
            yield one
    for group in together.values():
        yield replace(group[0], value=sum(one.value for one in group))
