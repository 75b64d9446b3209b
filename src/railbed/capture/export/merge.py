"""The packets of several files in one order of time. A window of each file is in memory, however long it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.analysis.clocks import Clock
from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.columns import make_engine
from railbed.capture.files.formats.blocks import LONGEST_BLOCK
from railbed.capture.files.formats.pcap import FileState, Records
from railbed.capture.files.layers import LinkType
from railbed.capture.files.reader import file_records
from railbed.capture.files.source import FileWindow, open_source

WINDOW = LONGEST_BLOCK + (1 << 20)
"""Bytes of each file in memory: room for the longest block."""
MOST_AT_ONCE = 1 << 15
"""Packets of each file that are merged at once."""


@dataclass(frozen=True, slots=True)
class PacketBatch:
    """Packets of one file, in order of time."""

    start: NDArray[np.int64]
    """Where the packet's bytes begin in the window."""
    captured: NDArray[np.int64]
    length: NDArray[np.uint32]
    time: NDArray[np.int64]
    """By the reference clock."""
    link: NDArray[np.uint8]
    number: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def part(self, rows: slice | NDArray[Any]) -> PacketBatch:
        """Return some of them."""
        return PacketBatch(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(slots=True)
class FileCursor:
    """One file, read from its beginning to its end."""

    path: Path
    clock: Clock
    window: FileWindow = field(init=False)
    batch: PacketBatch = field(init=False)
    """What is left of the window."""
    numbered: int = 0
    left_out: int = 0
    """Packets of links that Wireshark could not be told about."""
    _records: Iterator[Records] = field(init=False)

    def __post_init__(self) -> None:
        self.window = FileWindow(open_source(self.path), WINDOW)
        self._records = file_records(
            self.window, self.path, FileState(), make_engine("auto", AddressTable(), self.path)
        )

    def close(self) -> None:
        """Close the file."""
        self.window.source.close()

    def refill(self) -> bool:
        """Read on until there are packets; return whether there are any."""
        for records in self._records:
            self.batch = self._take_in(records)
            if len(self.batch):
                return True
        return False

    def _take_in(self, records: Records) -> PacketBatch:
        time = self.clock.align(records.time)
        number = np.arange(self.numbered + 1, self.numbered + 1 + len(records))
        self.numbered += len(records)
        batch = PacketBatch(records.start, records.captured, records.length, time, records.link, number)
        known = records.link != LinkType.UNSUPPORTED
        if not known.all():
            self.left_out += int((~known).sum())
            batch = batch.part(known)
        in_order = bool(np.all(batch.time[1:] >= batch.time[:-1]))
        return batch if in_order else batch.part(np.argsort(batch.time, kind="stable"))

    @property
    def horizon(self) -> int:
        """Until when packets can be merged, as far as this file is concerned."""
        return int(self.batch.time[min(len(self.batch), MOST_AT_ONCE) - 1])

    def take(self, until: int) -> PacketBatch:
        """Remove the packets up to a time, and return them."""
        stop = int(np.searchsorted(self.batch.time, until, side="right"))
        taken, self.batch = self.batch.part(slice(0, stop)), self.batch.part(slice(stop, None))
        return taken


def merge_packets(streams: Sequence[FileCursor]) -> Iterator[list[PacketBatch]]:
    """Yield a batch of each stream at a time, none for those at their end: all packets up to the same time.

    Packets that a file itself has out of order by more than a window stay so.
    """
    live = {place for place, stream in enumerate(streams) if stream.refill()}
    while live:
        until = min(streams[place].horizon for place in live)
        yield [stream.take(until) if place in live else NO_PACKETS for place, stream in enumerate(streams)]
        live = {place for place in live if len(streams[place].batch) or streams[place].refill()}


_NONE = np.zeros(0, np.int64)
NO_PACKETS = PacketBatch(_NONE, _NONE, _NONE.astype(np.uint32), _NONE, _NONE.astype(np.uint8), _NONE)
