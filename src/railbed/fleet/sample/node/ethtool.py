"""Counters of a card's driver, as `ethtool -S` prints them, without starting a process."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

from railbed.fleet.sample.node.group import CounterGroup

SIOCETHTOOL = 0x8946
STRINGS, STATISTICS, COUNT = 0x1B, 0x1D, 0x37
OF_STATISTICS = 1
NAME_BYTES = 32
SPARE = 4096
"""The kernel writes as many numbers as the driver has at that moment, whatever the size of our memory."""


class EthtoolCounters(CounterGroup):
    """The wanted counters of the driver of an interface."""

    source = "ethtool"

    def __init__(self, port: str, wanted: set[str]) -> None:
        self.port = port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._count = self._number_of_counters()
            names = self._all_names() if self._count else []
        except OSError:
            self._count, names = 0, []
        self._places = [index for index, name in enumerate(names) if name in wanted]
        self.names = [names[index] for index in self._places]
        self._values = array.array("Q", bytes(8 * (1 + self._count + SPARE))) if self.names else array.array("Q")

    def read(self) -> list[int | None]:
        """Return the counters; all None if the driver has others than before, as after a change of its settings."""
        if self._call(STATISTICS, self._count, self._values) != self._count:
            return [None for _ in self.names]
        return [self._values[1 + index] for index in self._places]

    def has_changed(self) -> bool:
        """Whether the driver has others than before: some exist only while a priority is paused by PFC."""
        try:
            return bool(self.names) and self._number_of_counters() != self._count
        except OSError:
            return True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _number_of_counters(self) -> int:
        answer = array.array("B", struct.pack("=IIQI", COUNT, 0, 1 << OF_STATISTICS, 0) + bytes(4 * SPARE))
        self._ioctl(answer)
        _, _, mask, count = struct.unpack_from("=IIQI", answer)
        return int(count) if mask else 0

    def _all_names(self) -> list[str]:
        answer = array.array("B", struct.pack("=III", STRINGS, OF_STATISTICS, self._count))
        answer.frombytes(bytes(NAME_BYTES * (self._count + SPARE)))
        self._ioctl(answer)
        _, _, count = struct.unpack_from("=III", answer)
        text = answer.tobytes()[12:]
        cells = (text[NAME_BYTES * index : NAME_BYTES * (index + 1)] for index in range(min(count, self._count)))
        return [cell.split(b"\0", 1)[0].decode(errors="replace").strip() for cell in cells]

    def _call(self, command: int, count: int, memory: array.array[int]) -> int:
        struct.pack_into("=II", memory, 0, command, count)
        self._ioctl(memory)
        return int(struct.unpack_from("=II", memory)[1])

    def _ioctl(self, memory: array.array[int]) -> None:
        address, _ = memory.buffer_info()
        fcntl.ioctl(self._socket, SIOCETHTOOL, struct.pack("16sP16x", self.port.encode(), address))
