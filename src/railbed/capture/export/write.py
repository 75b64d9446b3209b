"""Write recordings as one file: all packets of the same length with one copy, as blocks of pcapng."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from railbed import __version__
from railbed.capture.analysis.clocks import Clock
from railbed.capture.analysis.results import Analysis
from railbed.capture.export import blocks
from railbed.capture.export.blocks import Comments, comment_text, comments_of
from railbed.capture.export.merge import FileCursor, PacketBatch, merge_packets
from railbed.capture.files.formats.blocks import ENHANCED_PACKET
from railbed.capture.files.layers import LinkType
from railbed.capture.files.source import FileWindow
from railbed.capture.packets import Recording
from railbed.errors import UsageError, os_reason
from railbed.model.record import WRONG, Finding
from railbed.model.text import duration
from railbed.store import replacing
from railbed.store.run import PRIVATE

HEADER, TRAILER = 28, 4
Bytes = NDArray[np.uint8]
Options = tuple[NDArray[np.intp], bytes]
"""Places in the order of packets, and the options that all of them have."""


def render(
    windows: Sequence[FileWindow],
    batches: Sequence[PacketBatch],
    interfaces: Sequence[NDArray[np.int64]],
    order: NDArray[np.intp],
    options: Sequence[Options],
) -> Bytes:
    """Return packets of several files as blocks, in an order over all of them."""
    captured = np.concatenate([batch.captured for batch in batches])[order]
    padded = captured + (-captured & 3)
    size = HEADER + padded + TRAILER
    for places, data in options:
        size[places] += len(data)
    stop = np.cumsum(size)
    start = stop - size
    content = np.zeros(int(stop[-1]) if len(stop) else 0, np.uint8)
    time = np.maximum(np.concatenate([batch.time for batch in batches])[order], 0)
    length = np.concatenate([batch.length for batch in batches])[order]
    words = content.view("<u4")
    values = (ENHANCED_PACKET, size, np.concatenate(interfaces)[order], time >> 32, time & 0xFFFFFFFF, captured, length)
    for number, value in enumerate(values):
        words[start // 4 + number] = value
    words[stop // 4 - 1] = size
    _copy_packets(content, start + HEADER, windows, batches, order)
    for pad in range(1, 4):
        content[(start + HEADER + padded - pad)[padded - captured >= pad]] = 0
    for places, data in options:
        _at(content, len(data))[(start + HEADER + padded)[places]] = np.frombuffer(data, f"V{len(data)}")
    return content


def _copy_packets(
    content: Bytes,
    targets: NDArray[np.int64],
    windows: Sequence[FileWindow],
    batches: Sequence[PacketBatch],
    order: NDArray[np.intp],
) -> None:
    """Copy the bytes of packets, and up to three that follow them, from the windows of their files."""
    target = np.empty(len(order), np.int64)
    target[order] = targets
    first = 0
    for window, batch in zip(windows, batches, strict=True):
        own = target[first : first + len(batch)]
        first += len(batch)
        widths = batch.captured + (-batch.captured & 3)
        for width in np.unique(widths[widths > 0]).tolist():
            rows = np.flatnonzero(widths == width)
            _at(content, width)[own[rows]] = window.buffer.view(f"V{width}")[batch.start[rows]]


def _at(content: Bytes, width: int) -> NDArray[np.void]:
    """Return the so many bytes that begin at each byte, to be written to."""
    return np.ndarray((len(content) - width + 1,), f"V{width}", content.data, 0, (1,))


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    packets: int
    bytes: int
    comments: int
    left_out: int
    """Packets of a kind of link that is not Ethernet, Linux cooked or IP."""


def export_recordings(
    analysis: Analysis, files: Sequence[Path], target: Path, findings: Sequence[Finding] = ()
) -> Exported:
    """Write all packets of the recordings, which are in these files, to one pcapng file: completely, or not at all."""
    try:
        with replacing(target, mode=PRIVATE) as file:
            return _write(analysis, files, file, findings)
    except OSError as error:
        raise UsageError(f"cannot write the packets to {target}: {os_reason(error)}") from error


def _write(analysis: Analysis, files: Sequence[Path], file: BinaryIO, findings: Sequence[Finding]) -> Exported:
    with ExitStack() as stack:
        streams = [
            stack.enter_context(closing(FileCursor(path, clock)))
            for path, clock in zip(files, analysis.clocks, strict=True)
        ]
        comments = [comments_of(analysis, recording) for recording in analysis.recordings]
        writer = _Writer(file, analysis, streams, comments)
        writer.begin(findings)
        for batches in merge_packets(streams):
            writer.add(batches)
        writer.finish()
        return Exported(writer.packets, file.tell(), writer.commented, sum(stream.left_out for stream in streams))


@dataclass(slots=True)
class _Writer:
    file: BinaryIO
    analysis: Analysis
    streams: Sequence[FileCursor]
    comments: Sequence[Comments]
    packets: int = 0
    commented: int = 0
    _interfaces: dict[tuple[int, int], int] = field(default_factory=dict)
    """By recording and link."""
    _spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The times of the first and last packet, by recording."""
    _received: dict[int, int] = field(default_factory=dict)
    _places: list[dict[int, int]] = field(default_factory=list)
    """By recording: the number in the new file of packets that are repeated later."""

    def begin(self, findings: Sequence[Finding]) -> None:
        """Write what stands before the packets."""
        verdicts = [
            f"{finding.verdict} {finding.check}, {finding.subject}: {finding.observed}"
            for finding in findings
            if finding.verdict in WRONG
        ]
        comment = "\n".join(["times are those of the first recording's clock", *verdicts])
        self.file.write(blocks.section(f"railbed {__version__}", comment))
        self.file.write(blocks.names(_names(self.analysis)))
        self._places = [{} for _ in self.streams]

    def add(self, batches: Sequence[PacketBatch]) -> None:
        """Write packets of all recordings, in order of time."""
        interfaces = [self._interfaces_of(place, batch) for place, batch in enumerate(batches)]
        order = np.argsort(np.concatenate([batch.time for batch in batches]), kind="stable")
        position = np.empty(len(order), np.intp)
        position[order] = np.arange(len(order))
        options: list[Options] = []
        first = 0
        for place, batch in enumerate(batches):
            if len(batch):
                options += self._options(place, batch, position[first : first + len(batch)])
                self._count(place, batch)
            first += len(batch)
        windows = [stream.window for stream in self.streams]
        self.file.write(render(windows, batches, interfaces, order, options).data)
        self.packets += len(order)

    def _count(self, place: int, batch: PacketBatch) -> None:
        start = self._spans.get(place, (int(batch.time[0]), 0))[0]
        self._spans[place] = (start, int(batch.time[-1]))
        self._received[place] = self._received.get(place, 0) + len(batch)

    def _options(self, place: int, batch: PacketBatch, position: NDArray[np.intp]) -> Iterator[Options]:
        """Yield the comments of a recording's packets, with their positions among all that are written together."""
        comments, places = self.comments[place], self._places[place]
        for row in _matches(batch.number, comments.referenced)[0].tolist():
            places[int(batch.number[row])] = self.packets + int(position[row]) + 1
        rows, entries = _matches(batch.number, comments.numbers)
        self.commented += len(rows)
        bits, repeats = comments.texts[entries], comments.repeats[entries]
        for text in np.unique(bits[repeats == 0]).tolist():
            yield position[rows[(bits == text) & (repeats == 0)]], _comment(comment_text(text, None))
        for entry in np.flatnonzero(repeats).tolist():
            repeated = places.get(int(repeats[entry]), 0) if repeats[entry] != batch.number[rows[entry]] else 0
            yield position[rows[entry : entry + 1]], _comment(comment_text(int(bits[entry]), repeated))

    def _interfaces_of(self, place: int, batch: PacketBatch) -> NDArray[np.int64]:
        """Return the interface of each packet; one that is new is described first."""
        table = np.zeros(max(LinkType) + 1, np.int64)
        for link in np.unique(batch.link).tolist():
            if (place, link) not in self._interfaces:
                self._describe(place, LinkType(link))
            table[link] = self._interfaces[place, link]
        return table[batch.link]

    def _describe(self, place: int, link: LinkType) -> None:
        recording, clock = self.analysis.recordings[place], self.analysis.clocks[place]
        self._interfaces[place, link] = len(self._interfaces)
        self.file.write(blocks.interface(link, recording.snap_length, recording.name, _description(recording, clock)))

    def finish(self) -> None:
        """Write what each recording counted."""
        for place in range(len(self.streams)):
            if not any(owner == place for owner, _ in self._interfaces):
                self._describe(place, LinkType.ETHERNET)
        for (place, _), number in self._interfaces.items():
            recording = self.analysis.recordings[place]
            received = self._received.get(place, 0)
            self.file.write(blocks.statistics(number, self._spans.get(place), received, recording.dropped))


def _matches(numbers: NDArray[np.int64], wanted: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which numbers are wanted, and where among those they are; `wanted` is in order."""
    if not len(wanted):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    place = np.minimum(np.searchsorted(wanted, numbers), len(wanted) - 1)
    rows = np.flatnonzero(wanted[place] == numbers)
    return rows, place[rows]


def _comment(text: str) -> bytes:
    return blocks.text_option(blocks.COMMENT, text) + blocks.END


def _description(recording: Recording, clock: Clock) -> str:
    if clock.error is None:
        aligned = "its clock could not be aligned"
    elif clock.packets:
        way = "ahead" if clock.offset >= 0 else "behind"
        aligned = f"its clock was {duration(abs(clock.offset) / 1e9)} {way}, known to ±{duration(clock.error / 1e9)}"
    else:
        aligned = "its clock is the reference"
    described = f"{recording.file}: {aligned}" if recording.file else aligned
    return f"{described}; {recording.defect}" if recording.defect else described


def _names(analysis: Analysis) -> Mapping[str, str]:
    """Return the names of all addresses that are recorded and in the cluster file."""
    addresses = {address for flow in analysis.flows for address in (flow.key.source, flow.key.destination)}
    return {
        address: place.name for address in sorted(addresses) if (place := analysis.context.place(address)) is not None
    }
