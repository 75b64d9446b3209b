"""The packets of a recording, by flow: from one address to a queue pair of another.

Answers and notifications of a connection go to the queue pair of the other side, so a connection is two flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.context import Context, plain_address
from railbed.capture.opcodes import ORDERED, ROLE, Role
from railbed.capture.packets import Kind, Packets, Recording

Rows = NDArray[np.intp]
Numbers = NDArray[np.int64]
End = Literal["sender", "receiver", "between"]
"""Where a flow was recorded: at the port that sends it, at the one that receives it, or anywhere between."""
RANGE = 1 << 24
"""Of packet sequence numbers."""
MOST_FLOWS = 4096
"""Of a recording: those with the most packets are analysed, the others are counted."""
_CHUNK = 1 << 20


class FlowKey(NamedTuple):
    """What identifies a flow in every recording."""

    source: str
    destination: str
    qp: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Packets that share a space of sequence numbers, in order of time."""

    rows: Rows
    psn: Numbers
    """Without wrap: a number after 2^24 - 1 goes on counting."""


@dataclass(frozen=True, slots=True)
class View:
    """The packets of one flow in one recording, in order of time."""

    recording: Recording
    key: FlowKey
    end: End
    rows: Rows
    requests: Stream
    """Of connections; datagrams are not in sequence."""
    datagrams: Rows
    answers: Rows
    """Acknowledgements, refusals, and data that was read: to requests of the flow in the other direction."""
    notices: Rows
    """Congestion notifications about the flow in the other direction."""

    def column(self, name: str, rows: Rows | None = None) -> NDArray[Any]:
        """Return a column of the flow's packets, or of some of them."""
        return self.recording.packets[name][self.rows if rows is None else rows]

    def times(self, rows: Rows | None = None) -> Numbers:
        """Return when packets were recorded."""
        return self.column("time", rows)


@dataclass(frozen=True, slots=True)
class Views:
    """The flows of one recording."""

    recording: Recording
    views: tuple[View, ...]
    left_out: int
    """Packets of flows beyond MOST_FLOWS."""


def views_of(recording: Recording, context: Context) -> Views:
    """Return the flows of a recording, those with the most packets first."""
    packets = recording.packets
    order = _order_of_time(packets)
    if not len(order):
        return Views(recording, (), 0)
    addresses = [plain_address(address) for address in packets.addresses]
    own = own_addresses(recording, context)
    first: dict[str, int] = {}
    keys = _keys(packets, order, np.array([first.setdefault(address, at) for at, address in enumerate(addresses)]))
    distinct = _distinct(keys)
    flow_of = np.searchsorted(distinct, keys)
    flow_of = flow_of.astype(np.uint16) if len(distinct) < 1 << 16 else flow_of  # 16 bits sort in linear time
    counts = np.bincount(flow_of, minlength=len(distinct))
    rows = order[np.argsort(flow_of, kind="stable")]
    ends = np.cumsum(counts)
    biggest = np.argsort(-counts, kind="stable")[:MOST_FLOWS]
    views = []
    for flow in biggest:
        pair, qp = divmod(int(distinct[flow]), RANGE)
        source, destination = divmod(pair, len(addresses))
        key = FlowKey(addresses[source], addresses[destination], qp)
        views.append(_view(recording, key, own, rows[ends[flow] - counts[flow] : ends[flow]]))
    return Views(recording, tuple(views), int(counts.sum() - counts[biggest].sum()))


def _order_of_time(packets: Packets) -> Rows:
    rows = np.flatnonzero(packets["kind"] <= Kind.CNP)
    times = packets["time"][rows]
    return rows if np.all(times[1:] >= times[:-1]) else rows[np.argsort(times, kind="stable")]


def _keys(packets: Packets, order: Rows, same: Numbers) -> Numbers:
    """Return a number for each flow; `same` is an index for each address, equal for two spellings of one."""
    keys: Numbers = same[packets["source"][order]].astype(np.int64)
    keys *= len(packets.addresses)
    keys += same[packets["destination"][order]]
    keys <<= 24
    keys |= packets["qp"][order]
    return keys


def _distinct(keys: Numbers) -> Numbers:
    """Return the distinct keys, in order, without sorting all of them at once."""
    parts = [np.unique(keys[start : start + _CHUNK]) for start in range(0, len(keys), _CHUNK)]
    return np.unique(np.concatenate(parts))


def _view(recording: Recording, key: FlowKey, own: frozenset[str], rows: Rows) -> View:
    opcodes = recording.packets["opcode"][rows]
    role = ROLE[opcodes]
    asks, ordered = role == Role.REQUEST, ORDERED[opcodes]
    requests = rows[asks & ordered]
    return View(
        recording=recording,
        key=key,
        end=end_of(key, own),
        rows=rows,
        requests=Stream(requests, unwrap(recording.packets["psn"][requests])),
        datagrams=rows[asks & ~ordered],
        answers=rows[(role == Role.DATA) | (role == Role.ACK)],
        notices=rows[role == Role.NOTICE],
    )


def end_of(key: FlowKey, own: frozenset[str]) -> End:
    """Return where a flow is recorded by a port with these addresses."""
    return "sender" if key.source in own else "receiver" if key.destination in own else "between"


def unwrap(psn: NDArray[Any], start: int = RANGE) -> Numbers:
    """Return sequence numbers without wrap: each is the closest to the one before it."""
    numbers = psn.astype(np.int64)
    if len(numbers):
        steps = np.diff(numbers)
        steps += RANGE // 2
        steps &= RANGE - 1
        steps -= RANGE // 2
        numbers[0] += start
        np.cumsum(steps, out=numbers[1:])
        numbers[1:] += numbers[0]
    return numbers


def own_addresses(recording: Recording, context: Context) -> frozenset[str]:
    """Return the addresses of the recorded port: as recorded, from the cluster file, or shared by all packets."""
    if recording.addresses:
        return frozenset(map(plain_address, recording.addresses))
    if recording.device:
        return frozenset(
            address
            for address, place in context.places.items()
            if place.node == recording.device and recording.port in ("", place.port)
        )
    return frozenset(_shared_by_all(recording.packets))


def _shared_by_all(packets: Packets) -> Iterator[str]:
    """Yield the only address that sends or receives every packet; none if there are two such, or none."""
    rows = np.flatnonzero(packets["kind"] <= Kind.CNP)
    if not len(rows):
        return
    source, destination = packets["source"][rows], packets["destination"][rows]
    first: Sequence[int] = sorted({int(source[0]), int(destination[0])})
    shared = [address for address in first if np.all((source == address) | (destination == address))]
    if len(shared) == 1:
        yield plain_address(packets.addresses[shared[0]])
