"""Which flows belong together, and where they were recorded.

Which two flows are one connection is inferred, since a packet names only the queue pair that it goes to. An answer has
the sequence number of its request, and comes after it. Two flows between the same addresses belong together if the
answers of one name requests of the other; where several do, the UDP source port and the smaller distance to the request
that was sent last decide.

If nobody says at which address a recording was made, round trips do: the closer to the sender, the longer the wait for
answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import answers_to, is_answer, near, round_trips
from railbed.capture.analysis.sequence import PATH_SIZES, order_of
from railbed.capture.analysis.views import FlowKey, Numbers, View
from railbed.model.record import Certainty

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
SAMPLES = 256
"""Answers that are compared, spread over the recording."""
LEAST_SHARE, SURE_SHARE = 0.5, 0.95
"""Shares of answers that name a request of the other flow: to be considered, and to be sure."""
SURE_SAMPLES = 4
MOST_CANDIDATES = 32
"""Flows that are compared with a flow, if many connect the same addresses: those with the same source port first."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The flow in the other direction of the same connection."""

    key: FlowKey
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class _Side:
    """A flow, with what is compared of it."""

    view: View
    start: int
    port: int
    """The UDP source port of requests and answers; notifications have their own."""
    times: Numbers
    """When its requests were sent."""
    sent: Numbers
    """Their numbers, sorted."""
    answers: Numbers
    """Numbers of a sample of its answers."""
    answered: Numbers

    @classmethod
    def of(cls, view: View) -> _Side:
        """Prepare a flow."""
        rows = view.answers[is_answer(view)]
        if len(rows) > SAMPLES:
            rows = rows[np.linspace(0, len(rows) - 1, SAMPLES).astype(np.intp)]
        telling = [rows[0] for rows in (view.requests.rows, view.answers) if len(rows)]
        return cls(
            view=view,
            start=int(view.times(view.rows[:1])[0]),
            port=int(view.column("source_port", np.array(telling[:1]))[0]) if telling else 0,
            times=view.times(view.requests.rows),
            sent=np.sort(view.requests.psn, kind="stable"),
            answers=view.column("psn", rows).astype(np.int64),
            answered=view.times(rows),
        )


@dataclass(frozen=True, slots=True)
class _Match:
    first: FlowKey
    second: FlowKey
    share: float
    samples: int
    distance: float
    """The median distance of an answer's number to that of the request sent last."""
    same_port: bool

    @property
    def rank(self) -> tuple[bool, bool, float, float]:
        return self.share >= SURE_SHARE, self.same_port, self.share, -self.distance


def partners_of(views: Sequence[View]) -> Mapping[FlowKey, Partner]:
    """Return the partner of each flow of a recording that has one."""
    by_addresses: dict[tuple[str, str], list[View]] = {}
    for view in views:
        by_addresses.setdefault((view.key.source, view.key.destination), []).append(view)
    partners = dict(_name_partners(views))
    for (source, destination), listed in by_addresses.items():
        forward = [view for view in listed if view.key not in partners]
        backward = [view for view in by_addresses.get((destination, source), []) if view.key not in partners]
        if source < destination and forward and backward:
            partners |= _pair_up(forward, backward)
    return partners


def _name_partners(views: Sequence[View]) -> Iterator[tuple[FlowKey, Partner]]:
    """Yield the partners of flows of datagrams, which name the queue pair that sent them."""
    keys = {view.key for view in views}
    for view in views:
        if len(view.datagrams):
            back = FlowKey(view.key.destination, view.key.source, int(view.column("source_qp", view.datagrams[:1])[0]))
            if back in keys:
                yield view.key, Partner(back, "certain")


def _pair_up(forward: Sequence[View], backward: Sequence[View]) -> Mapping[FlowKey, Partner]:
    ahead, back = [_Side.of(view) for view in forward], [_Side.of(view) for view in backward]
    matches = [_match(first, second) for first in ahead for second in _candidates(first, back)]
    rivals: dict[FlowKey, list[_Match]] = {}
    for match in matches:
        if match.share >= LEAST_SHARE:
            rivals.setdefault(match.first, []).append(match)
            rivals.setdefault(match.second, []).append(match)
    partners: dict[FlowKey, Partner] = {}
    for match in sorted(matches, key=lambda match: match.rank, reverse=True):
        if match.share >= LEAST_SHARE and match.first not in partners and match.second not in partners:
            others = [other for key in (match.first, match.second) for other in rivals[key] if other is not match]
            partners |= _both(match.first, match.second, _certainty(match, others))
    alone = [[view for view in views if view.key not in partners] for views in (forward, backward)]
    if all(len(views) == 1 and not len(views[0].datagrams) for views in alone):
        first, second = alone[0][0].key, alone[1][0].key
        contradicted = any(match.samples and (match.first, match.second) == (first, second) for match in matches)
        if not contradicted:
            partners |= _both(first, second, "likely" if len(forward) == len(backward) == 1 else "possible")
    return partners


def _both(first: FlowKey, second: FlowKey, certainty: Certainty) -> Mapping[FlowKey, Partner]:
    return {first: Partner(second, certainty), second: Partner(first, certainty)}


def _candidates(side: _Side, others: Sequence[_Side]) -> Sequence[_Side]:
    if len(others) <= MOST_CANDIDATES:
        return others
    return sorted(others, key=lambda it: (it.port != side.port, abs(it.start - side.start)))[:MOST_CANDIDATES]


def _match(first: _Side, second: _Side) -> _Match:
    pairs = [_agreement(first, second), _agreement(second, first)]
    agreeing = np.concatenate([agree for agree, _ in pairs])
    far = np.concatenate([distance for _, distance in pairs])
    return _Match(
        first=first.view.key,
        second=second.view.key,
        share=float(agreeing.mean()) if len(agreeing) else 0.0,
        samples=len(agreeing),
        distance=float(np.median(far[agreeing])) if agreeing.any() else np.inf,
        same_port=first.port == second.port != 0,
    )


def _agreement(requests: _Side, answers: _Side) -> tuple[Mask, Floats]:
    """Return for a sample of answers whether each names an earlier request, and how far back."""
    count = len(answers.answers)
    if not count or not len(requests.times):
        return np.zeros(count, np.bool_), np.zeros(count)
    psn = near(requests.view.requests, requests.times, answers.answers, answers.answered)
    last = np.searchsorted(requests.times, answers.answered, side="right") - 1
    place = np.minimum(np.searchsorted(requests.sent, psn), len(requests.sent) - 1)
    distance = requests.view.requests.psn[np.maximum(last, 0)] - psn
    return (last >= 0) & (requests.sent[place] == psn), np.abs(distance).astype(np.float64)


def _certainty(match: _Match, rivals: Sequence[_Match]) -> Certainty:
    if match.share >= SURE_SHARE and match.samples >= SURE_SAMPLES and not rivals:
        return "certain"
    by_port = match.same_port and not any(other.same_port for other in rivals)
    closer = all(match.distance * 2 < other.distance for other in rivals)
    return "likely" if match.share >= SURE_SHARE and (by_port or closer) else "possible"


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
