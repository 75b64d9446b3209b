"""Which two flows are one connection: a packet names only the queue pair that it goes to, so this is inferred.

An answer has the sequence number of its request, and comes after it. Two flows between the same addresses belong
together if the answers of one name requests of the other; where several do, the UDP source port and the smaller
distance to the request that was sent last decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.answers import is_answer, near
from railbed.capture.analysis.views import FlowKey, Numbers, View
from railbed.model.record import Certainty

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
SAMPLES = 256
"""Answers that are compared, spread over the recording."""
LEAST_SHARE, SURE_SHARE = 0.5, 0.95
"""Shares of answers that name a request of the other flow: to be considered, and to be sure."""
SURE_SAMPLES = 4
MOST_CANDIDATES = 64
"""Flows that are compared with a flow, if many connect the same addresses: those with the same source port first."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The flow in the other direction of the same connection."""

    key: FlowKey
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class _Match:
    first: View
    second: View
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
    partners = dict(_named(views))
    for (source, destination), listed in by_addresses.items():
        forward = [view for view in listed if view.key not in partners]
        backward = [view for view in by_addresses.get((destination, source), []) if view.key not in partners]
        if source < destination and forward and backward:
            partners |= _pair_up(forward, backward)
    return partners


def _named(views: Sequence[View]) -> Iterator[tuple[FlowKey, Partner]]:
    """Yield the partners of flows of datagrams, which name the queue pair that sent them."""
    keys = {view.key for view in views}
    for view in views:
        if len(view.datagrams):
            back = FlowKey(view.key.destination, view.key.source, int(view.column("source_qp", view.datagrams[:1])[0]))
            if back in keys:
                yield view.key, Partner(back, "certain")


def _pair_up(forward: Sequence[View], backward: Sequence[View]) -> Mapping[FlowKey, Partner]:
    matches = [_match(first, second) for first in forward for second in _candidates(first, backward)]
    partners: dict[FlowKey, Partner] = {}
    for match in sorted(matches, key=lambda match: match.rank, reverse=True):
        keys = match.first.key, match.second.key
        if match.share < LEAST_SHARE or partners.keys() & set(keys):
            continue
        certainty = _certainty(match, [other for other in matches if other is not match])
        partners |= {keys[0]: Partner(keys[1], certainty), keys[1]: Partner(keys[0], certainty)}
    alone = [[view for view in views if view.key not in partners] for views in (forward, backward)]
    if all(len(views) == 1 and not len(views[0].datagrams) for views in alone) and not _contradicted(matches, alone):
        first, second = alone[0][0].key, alone[1][0].key
        certainty = "likely" if len(forward) == len(backward) == 1 else "possible"
        partners |= {first: Partner(second, certainty), second: Partner(first, certainty)}
    return partners


def _contradicted(matches: Iterable[_Match], alone: Sequence[Sequence[View]]) -> bool:
    """Whether the answers of the two remaining flows name no requests of each other."""
    return any(
        match.samples and match.first is alone[0][0] and match.second is alone[1][0] and match.share < LEAST_SHARE
        for match in matches
    )


def _candidates(view: View, others: Sequence[View]) -> Sequence[View]:
    if len(others) <= MOST_CANDIDATES:
        return others
    start = _start(view)
    return sorted(others, key=lambda other: (_port(other) != _port(view), abs(_start(other) - start)))[:MOST_CANDIDATES]


def _start(view: View) -> int:
    return int(view.recording.packets["time"][view.rows[0]])


def _port(view: View) -> int:
    """Return the UDP source port of requests and answers; notifications have their own."""
    ports = [rows[0] for rows in (view.requests.rows, view.answers) if len(rows)]
    return int(view.recording.packets["source_port"][ports[0]]) if ports else 0


def _match(first: View, second: View) -> _Match:
    agree, distances = zip(*(_agreement(*pair) for pair in ((first, second), (second, first))), strict=True)
    agreeing, far = np.concatenate(agree), np.concatenate(distances)
    share = float(agreeing.mean()) if len(agreeing) else 0.0
    distance = float(np.median(far[agreeing])) if agreeing.any() else np.inf
    same_port = _port(first) == _port(second) != 0
    return _Match(first, second, share, len(agreeing), distance, same_port)


def _agreement(requests: View, answers: View) -> tuple[Mask, Floats]:
    """Return for a sample of answers whether each names an earlier request, and how far back."""
    rows = answers.answers[is_answer(answers)]
    if not len(rows):
        return np.zeros(0, np.bool_), np.zeros(0)
    if len(rows) > SAMPLES:
        rows = rows[np.linspace(0, len(rows) - 1, SAMPLES).astype(np.intp)]
    if not len(requests.requests.rows):
        return np.zeros(len(rows), np.bool_), np.zeros(len(rows))
    times, at = requests.times(requests.requests.rows), answers.times(rows)
    psn = near(requests.requests, times, answers.column("psn", rows).astype(np.int64), at)
    last = np.searchsorted(times, at, side="right") - 1
    distance = requests.requests.psn[np.maximum(last, 0)] - psn
    return (last >= 0) & _was_sent(requests, psn), np.abs(distance).astype(np.float64)


def _was_sent(view: View, psn: Numbers) -> Mask:
    """Return which numbers are those of requests."""
    sent = view.requests.psn
    if np.all(sent[1:] >= sent[:-1]):
        place = np.minimum(np.searchsorted(sent, psn), len(sent) - 1)
        return np.asarray(sent[place] == psn)
    return np.isin(psn, sent)


def _certainty(match: _Match, others: Iterable[_Match]) -> Certainty:
    rivals = [
        other
        for other in others
        if other.share >= LEAST_SHARE and (other.first is match.first or other.second is match.second)
    ]
    if match.share >= SURE_SHARE and match.samples >= SURE_SAMPLES and not rivals:
        return "certain"
    by_port = match.same_port and not any(other.same_port for other in rivals)
    closer = all(match.distance * 2 < other.distance for other in rivals)
    return "likely" if match.share >= SURE_SHARE and (by_port or closer) else "possible"
