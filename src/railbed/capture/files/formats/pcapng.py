"""The newer format of capture files: sections of blocks, in either byte order, with packets of several interfaces."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.formats import blocks
from railbed.capture.files.formats.blocks import DROPPED, BlockChain, Interface, nanoseconds, read_interface
from railbed.capture.files.formats.lanes import Positions
from railbed.capture.files.formats.pcap import LONGEST_PACKET, FileState, Records, RecordWalk
from railbed.capture.files.layers import READABLE, LinkType, link_name
from railbed.capture.files.source import FileWindow, Order, fields
from railbed.errors import CaptureFileError

MAGIC = b"\x0a\x0d\x0d\x0a"
ORDERS: dict[bytes, Order] = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
MOST_SECTIONS = 10_000
MOST_INTERFACES = 10_000
"""In a file."""
MOST_LANED = 4
"""Sections that begin in one window and are still walked in lanes, which pay off only for long ones."""
PACKETS = (blocks.OLD_PACKET, blocks.SIMPLE_PACKET, blocks.ENHANCED_PACKET)
PACKET_HEADER = 28
SIMPLE_HEADER = 12


class PcapngFile:
    """Reads one file."""

    def __init__(self, window: FileWindow, path: Path, state: FileState, walk: RecordWalk) -> None:
        self.window, self.path, self.state, self.walk = window, path, state, walk
        self.order: Order = "<"
        self.interfaces: list[Interface] = []
        """Of this section."""
        self.links: set[int] = set()
        """Link types of all sections."""
        self.interface_count = self.sections = 0
        self.dropped: dict[tuple[int, int], int] = {}
        """By section and interface."""
        self.last_time = 0

    def records(self) -> Iterator[Records]:
        """Yield the packets, window by window."""
        position = sections_here = 0
        here: list[Records] = []
        while not self.state.damage and not self.state.truncated:
            if self._continues(position):
                yield Records.together(here)
                self.window.advance(position)
                position, sections_here, here = 0, 0, []
            if self._is_section(position):
                position = self._begin_section(position)
                sections_here += 1
            elif self._is_over(position):
                break
            else:
                chain = BlockChain(self.window, self.order)
                starts, position = self.walk(chain, position, self.window.end, alone=sections_here > MOST_LANED)
                here.append(self._packets(starts))
        yield Records.together(here)
        self._conclude()

    def _conclude(self) -> None:
        if self.dropped:
            self.state.dropped = sum(self.dropped.values())
        if self.links and not any(Interface(number).link for number in self.links):
            names = ", ".join(link_name(number) for number in sorted(self.links)[:5])
            raise CaptureFileError(f"{self.path} was recorded with {names}", hint=f"railbed reads {READABLE}.")

    def _is_section(self, position: int) -> bool:
        return position + 4 <= self.window.end and self.window.copy(position, 4) == MAGIC

    def _length(self, position: int) -> int:
        """Return the length that a block claims; a section header does so in its own byte order."""
        order = ORDERS.get(self.window.copy(position + 8, 4)) if self._is_section(position) else self.order
        return int(self.window.words(order or self.order)[position + 4])

    def _continues(self, position: int) -> bool:
        """Return whether the next block continues behind the window."""
        left = self.window.end - position
        return not self.window.complete and (left < 28 or left < self._length(position) <= blocks.LONGEST_BLOCK)

    def _is_over(self, position: int) -> bool:
        """Return whether the file ends here; a block at which a walk does not even begin is damaged."""
        left = self.window.end - position
        if left >= blocks.SHORTEST_BLOCK:
            length = self._length(position)
            sound = blocks.SHORTEST_BLOCK <= length <= blocks.LONGEST_BLOCK and length % 4 == 0
            self.state.truncated = sound and length > left
            if not sound or (length <= left and int(self.window.words(self.order)[position + length - 4]) != length):
                self._damage(position)
            return bool(self.state.truncated or self.state.damage)
        self.state.truncated = left > 0
        return True

    def _damage(self, position: int, reason: str = "") -> None:
        where = f"{self.path} is damaged at byte {self.window.before + position}"
        self.state.damage = self.state.damage or (f"{where}: {reason}" if reason else where)

    def _begin_section(self, position: int) -> int:
        """Read a section header; return where the block behind it begins."""
        start = self.window.copy(position, min(28, self.window.end - position))
        self.sections += 1
        order = ORDERS.get(start[8:12])
        if len(start) < 28:
            if self.sections == 1:
                raise CaptureFileError(f"{self.path} ends within the header of the file")
            self.state.truncated = True
        elif self.sections > MOST_SECTIONS:
            self._damage(position, f"it has more than {MOST_SECTIONS:,} sections")
        elif order is None or not self._is_sound(start, order):
            self._damage(position)
        else:
            length = self._length(position)
            self.state.truncated = self.window.end < position + length
            self.order, self.interfaces = order, []
            return min(position + length, self.window.end)
        return position

    def _is_sound(self, start: bytes, order: Order) -> bool:
        length, _, major = struct.unpack_from(f"{order}IIH", start, 4)
        return bool(major == 1 and 28 <= length <= blocks.LONGEST_BLOCK and length % 4 == 0)

    def _packets(self, starts: Positions) -> Records:
        """Take in the blocks that begin at these positions, and return their packets."""
        words = self.window.words(self.order)
        kind, length = words[starts], words[starts + 4].astype(np.int64)
        bad = np.zeros(len(starts), bool)
        for sort, shortest in blocks.SHORTEST.items():
            bad |= (kind == sort) & (length < shortest)
        if bad.any():
            good = int(bad.argmax())
            self._damage(int(starts[good]))
            starts, kind, length = starts[:good], kind[:good], length[:good]
        known = np.full(len(starts), len(self.interfaces))
        described = np.flatnonzero(kind == blocks.INTERFACE)
        if len(described):
            described = self._describe(starts, length, described)
            known += np.searchsorted(described, np.arange(len(starts)), side="right")
        self._count_drops(starts, length, kind)
        chosen = np.isin(kind, PACKETS)
        if not chosen.all():
            starts, kind, length, known = starts[chosen], kind[chosen], length[chosen], known[chosen]
        return self._fields(starts, kind, length, known)

    def _describe(
        self, starts: Positions, length: NDArray[np.int64], described: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Add the interfaces that these blocks describe; return the blocks that were used."""
        room = max(0, MOST_INTERFACES - self.interface_count)
        if len(described) > room:
            self._damage(int(starts[described[room]]), f"it has more than {MOST_INTERFACES:,} interfaces")
        for block in described[:room].tolist():
            interface = read_interface(self.window.copy(int(starts[block]), int(length[block])), self.order)
            self.interfaces.append(interface)
            self.links.add(interface.number)
            self.state.snap_length = max(self.state.snap_length, interface.snap_length)
        self.interface_count += len(described[:room])
        return described[:room]

    def _count_drops(self, starts: Positions, length: NDArray[np.int64], kind: NDArray[np.uint32]) -> None:
        """Keep what the last statistics of each interface say."""
        index = np.flatnonzero(kind == blocks.STATISTICS)[::-1]
        if not len(index):
            return
        numbers = self.window.words(self.order)[starts[index] + 8]
        distinct, last = np.unique(numbers, return_index=True)
        for number, place in zip(distinct[:MOST_INTERFACES], last[:MOST_INTERFACES], strict=True):
            block = index[place]
            content = self.window.copy(int(starts[block]) + 20, int(length[block]) - 24)
            for code, value in blocks.options(content, self.order):
                if code == DROPPED and len(value) == 8:
                    self.dropped[self.sections, int(number)] = struct.unpack(f"{self.order}Q", value)[0]

    def _fields(
        self, starts: Positions, kind: NDArray[np.uint32], length: NDArray[np.int64], known: NDArray[np.int64]
    ) -> Records:
        word = f"{self.order}u4"
        names = ("kind", "total", "interface", "high", "low", "captured", "length")
        block = fields(self.window.buffer.rows(starts, PACKET_HEADER), 0, np.dtype([(name, word) for name in names]))
        interface = block["interface"].astype(np.int64)
        captured, original = block["captured"].astype(np.int64), block["length"].astype(np.uint32)
        begin, room = np.full(len(starts), PACKET_HEADER), length - PACKET_HEADER - 4
        old, simple = kind == blocks.OLD_PACKET, kind == blocks.SIMPLE_PACKET
        if old.any():
            interface[old] = interface[old] & 0xFFFF if self.order == "<" else interface[old] >> 16
        if simple.any():
            original[simple] = block["interface"][simple]
            interface[simple], begin[simple] = 0, SIMPLE_HEADER
            room[simple] = length[simple] - SIMPLE_HEADER - 4
            snap = (self.interfaces[0].snap_length if self.interfaces else 0) or LONGEST_PACKET
            captured[simple] = np.minimum(np.minimum(original[simple], snap), room[simple])
        bad = (interface >= known) | (captured > room) | (captured > LONGEST_PACKET)
        good = len(starts)
        if bad.any():
            good = int(bad.argmax())
            unknown = interface[good] >= known[good]
            self._damage(int(starts[good]), "a packet of an interface that is not described" if unknown else "")
        if not good:
            return Records.empty()
        part = slice(0, good)
        ticks = block["high"][part].astype(np.uint64) << np.uint64(32) | block["low"][part]
        time = nanoseconds(ticks, [used.clock for used in self.interfaces], interface[part])
        if simple[part].any():
            time = self._fill_times(time, simple[part])
        self.last_time = int(time[-1])
        links = np.array([used.link for used in self.interfaces] or [LinkType.UNSUPPORTED], np.uint8)
        position = starts[part] + begin[part]
        return Records(position, captured[part], original[part], time, links[interface[part]])

    def _fill_times(self, time: NDArray[np.int64], simple: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Give packets without a time that of the packet before."""
        latest = np.maximum.accumulate(np.where(simple, -1, np.arange(len(time))))
        filled: NDArray[np.int64] = np.where(latest < 0, self.last_time, time[latest])
        return filled
