"""Events of capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railbed.model.record import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureMethod(Event):
    """How the packets of a port are recorded: by the kernel, by the card's sniffer, or by a flag of its driver.

    `method` is `kernel`, `card` or `card_flag`; `source` is the interface or RDMA device that tcpdump captures on,
    `cost` what it costs the traffic meanwhile.
    """

    name: ClassVar = "capture_method"
    method: str
    source: str
    cost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStarted(Event):
    """All nodes record packets, from here on; `snap_length` is how many bytes of each packet at most."""

    name: ClassVar = "capture_started"
    ports: list[str]
    snap_length: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCaptured(Event):
    """The recording of a port was fetched into the run.

    `captured` counts the packets that tcpdump recorded, `dropped` those that the kernel or the interface lost because
    tcpdump was too slow; both are missing if tcpdump was killed. `file` is relative to the run's folder. A `reason`
    says why it ended before it was stopped.
    """

    name: ClassVar = "port_captured"
    file: str
    bytes: int
    captured: int | None = None
    dropped: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRead(Event):
    """A recording was read: `packets` of RDMA and pause frames, of `total` in the file.

    `overwritten` counts the oldest packets that the ring of files had no room for; `truncated` means that the last
    packet is incomplete. `began` and `ended` are the times of the first and last packet, on the clock of whoever
    recorded them.
    """

    name: ClassVar = "recording_read"
    file: str
    packets: int
    total: int
    bytes: int
    snap_length: int
    truncated: bool = False
    dropped: int | None = None
    overwritten: int | None = None
    began: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A distribution of durations, in seconds."""

    count: int
    median: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionEpisode:
    """Notifications in a row from `start` to `stop`, with the sender's rate in bytes per second before and after.

    `after` is the lowest rate; `reacted` and `recovered` are the seconds until the rate fell and was back, if it was.
    """

    start: float
    stop: float
    notifications: int
    before: float
    after: float
    reacted: float | None = None
    recovered: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactions:
    """What a sender did about congestion notifications: `episodes` of them, in `slowed` of which its rate fell.

    Rates are medians in bytes per second, before and at the lowest after the notifications; `reacted` and `recovered`
    are the median times in seconds until the rate fell, and until it was back, if they were. Notifications without a
    known rate before them are not judged: `unjudged` counts them. `first` lists the first twenty episodes.
    """

    episodes: int
    slowed: int
    unjudged: int
    before: float | None = None
    after: float | None = None
    reacted: float | None = None
    recovered: float | None = None
    first: list[ReactionEpisode] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(Event):
    """Packets from one address to a queue pair of another, in all recordings that have them.

    Answers and notifications go to the queue pair of the other side, so a connection is two flows: `partner` is the id
    of the other, with how certain that is. Counts are those of the recording closest to the sender; `arrived` and
    `ecn_arrived` those at the receiver, if it was recorded. `lost` counts packets that did not arrive, `uncaptured`
    those that only a recorder missed, `unresolved` those of which nobody knows. Times are those of the reference clock.
    """

    name: ClassVar = "flow"
    id: str
    source: str
    destination: str
    qp: int
    transport: str
    role: str
    """`requests`, `answers`, `both`, `datagrams` or `notifications`: what it carries."""
    recorded_at: list[str]
    """`sender`, `between`, `receiver`."""
    began: float
    ended: float
    packets: int
    bytes: int
    payload_bytes: int
    dscp: dict[str, int]
    ecn: dict[str, int]
    """`not-ect`, `ect0`, `ect1`, `ce`."""
    messages: dict[str, int]
    """By operation: `send`, `write`, `read`, `atomic`, `flush`."""
    resent: int
    reordered: int
    lost: int
    uncaptured: int
    unresolved: int
    refusals: dict[str, int]
    """By reason: `sequence`, `not ready`, `invalid request`, `remote access`, `remote operation`."""
    notifications: int
    """About this flow, as its sender received them, or as they were recorded elsewhere."""
    source_node: str | None = None
    destination_node: str | None = None
    rail: str | None = None
    partner: str | None = None
    partner_certainty: str | None = None
    priority: dict[str, int] | None = None
    """Of VLAN tags; missing without tags."""
    arrived: int | None = None
    ecn_arrived: dict[str, int] | None = None
    full_packet_bytes: int | None = None
    message_bytes_median: int | None = None
    message_bytes_largest: int | None = None
    messages_per_second: float | None = None
    round_trip: Times | None = None
    """From a request to its first answer, where the flow was recorded first."""
    delay: Times | None = None
    """From the first to the last recorder; as exact as the clocks are aligned."""
    reaction: Reactions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRates(Event):
    """A flow over time, in buckets of `width` seconds from `start` on: packets, bytes per second, marks, notifications.

    The largest flows have one each, with at most 400 buckets on the same axis.
    """

    name: ClassVar = "flow_rates"
    id: str
    start: float
    width: float
    bytes_per_second: list[float]
    packets: list[int]
    ce: list[int]
    notifications: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderStep:
    """One packet of a ladder: when it was at the left and at the right, in seconds since the start.

    A time is missing where the packet was not recorded. `to` is `left` or `right`; `note` says what is special: `lost`,
    `sent again`, `CE`, the reason of a refusal. `number` is that of the packet in the ladder's `file`.
    """

    to: str
    text: str
    psn: int
    number: int
    left: float | None = None
    right: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder(Event):
    """The packets around a selected message of a flow, in both directions; `why` it was selected."""

    name: ClassVar = "ladder"
    id: str
    """Of the flow."""
    why: str
    left: str
    right: str
    start: float
    steps: list[LadderStep]
    file: str | None = None
    other_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPaused(Event):
    """Pause frames of one sender for one priority, in one recording; without a priority, for all of them (802.3x).

    `stops` are the frames that ask to stop. `seconds` is how long they stopped the link, `longest` without a break;
    unless `exact`, the speed of the link is unknown, and the time up to the next frame counts.
    """

    name: ClassVar = "port_paused"
    sender: str
    """Its MAC address."""
    frames: int
    stops: int
    seconds: float
    longest: float
    exact: bool
    began: float
    ended: float
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncastSeen(Event):
    """Several nodes sent to one receiver in the same moments, each `width` seconds long.

    `senders` are those at the worst moment, when they sent `bytes_per_second` together: `share` of the link's speed.
    `overloaded` counts the moments above it; both are missing if the speed is unknown.
    """

    name: ClassVar = "incast"
    receiver: str
    senders: list[str]
    moments: int
    width: float
    worst: float
    began: float
    ended: float
    bytes_per_second: float
    overloaded: int | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockAligned(Event):
    """The clock of a recording, compared with the reference: how far it is ahead, and by how much that may be wrong.

    Times of other events of capture are those of the reference. `error` is missing if the recording shares no packets
    in both directions with the others; `packets` is 0 for the reference itself. All in seconds; `drift` per second.
    """

    name: ClassVar = "clock_aligned"
    offset: float
    drift: float
    packets: int
    error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketsExported(Event):
    """All packets were written to one pcapng file, on the reference clock, `comments` of them with a comment.

    `left_out` counts packets of links that are neither Ethernet nor Linux cooked nor IP; `incomplete` lists the
    recordings whose file is cut or damaged, of which only the first packets are there.
    """

    name: ClassVar = "packets_exported"
    file: str
    packets: int
    bytes: int
    comments: int
    left_out: int | None = None
    incomplete: list[str] | None = None
