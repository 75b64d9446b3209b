"""Which address a recording was made at, if nobody says: the closer to the sender, the longer the wait for answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from railbed.capture.analysis.answers import answers_to, round_trips
from railbed.capture.analysis.ends.pairing import Partner
from railbed.capture.analysis.sequence import PATH_SIZES, order_of
from railbed.capture.analysis.views import FlowKey, View

Flows = tuple[Mapping[FlowKey, View], Mapping[FlowKey, Partner]]
LEAST_RATIO = 1.02
"""Between the waits in two recordings: with less, both may be from the same place."""
MOST_COMPARED = 8
"""Flows that are compared for two recordings."""


def nearest_addresses(parts: Sequence[Flows]) -> list[frozenset[str]]:
    """Return the addresses that each recording was made at; empty if they are known already, or cannot be inferred."""
    votes: list[Counter[str]] = [Counter() for _ in parts]
    unnamed = [index for index, (views, _) in enumerate(parts) if all(it.end == "between" for it in views.values())]
    for first, second in combinations(unnamed, 2):
        shared = [key for key in parts[first][0] if key in parts[second][0] and key in parts[first][1]]
        for key in shared[:MOST_COMPARED]:
            here, there = _wait(parts[first], key), _wait(parts[second], key)
            if here is not None and there is not None and max(here, there) > LEAST_RATIO * min(here, there):
                near, far = (first, second) if here > there else (second, first)
                votes[near][key.source] += 1
                votes[far][key.destination] += 1
    return [frozenset(address for address, _ in counter.most_common(1)) for counter in votes]


def _wait(part: Flows, key: FlowKey) -> int | None:
    """Return the usual time from a request to its answer."""
    views, partners = part
    view, partner = views[key], views.get(partners[key].key) if key in partners else None
    if partner is None or not len(view.requests.rows):
        return None
    order = order_of(view, PATH_SIZES[-1])
    answers = answers_to(view.requests, view.times(view.requests.rows), partner)
    trips = round_trips(view, order.new, view.requests.psn[order.behind], answers)
    return trips.median if trips else None
