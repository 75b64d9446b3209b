"""The invariant CRC of many packets at once.

It covers the packet from its IP header (or global route header), with ones for whatever a router changes, behind eight
bytes of ones for the local header that RoCE lacks.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.window import Buffer
from railbed.capture.packets import Icrc

POLYNOMIAL = 0xEDB88320
LONGEST_TOGETHER = 256
FEWEST_TOGETHER = 16
"""Packets of the same length up to this are computed together, four bytes of each at a time; others one by one."""
LOCAL_HEADER = b"\xff" * 8


@dataclass(frozen=True, slots=True)
class Header:
    """What precedes the base transport header."""

    length: int
    changed: tuple[int, ...]
    """Bytes that count as ones, up to one in the base transport header."""
    first: int
    """Bits of the first byte that count as ones."""


IPV4 = Header(28, (1, 8, 10, 11, 26, 27, 32), 0x00)
IPV6 = Header(48, (1, 2, 3, 7, 46, 47, 52), 0x0F)
GRH = Header(40, (1, 2, 3, 7, 44), 0x0F)


def _advanced(values: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    """Return the registers after so many bytes of zeros."""
    for _ in range(8 * count):
        values = (values >> np.uint32(1)) ^ np.where(values & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    return values


_LOWER = _advanced(np.arange(1 << 16, dtype=np.uint32), 4)
_UPPER = _advanced(np.arange(1 << 16, dtype=np.uint32) << np.uint32(16), 4)
REGISTER = zlib.crc32(LOCAL_HEADER) ^ 0xFFFFFFFF
"""The register behind the local header."""


def register_tables() -> NDArray[np.uint32]:
    """Return the register after each byte and none to three bytes of zeros."""
    every = np.arange(256, dtype=np.uint32)
    return np.stack([_advanced(every, count) for count in range(1, 5)])


def check(buffer: Buffer, begin: NDArray[np.int64], end: NDArray[np.int64], header: Header) -> NDArray[np.uint8]:
    """Return an Icrc for each packet from the header at `begin` to the end of its CRC."""
    results = np.zeros(len(begin), np.uint8)
    covered = end - begin - 4
    lengths, counts = np.unique(covered, return_counts=True)
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        index = np.flatnonzero(covered == length) if count < len(begin) else np.arange(count)
        if length <= LONGEST_TOGETHER and length % 4 == 0 and count >= FEWEST_TOGETHER:
            right = _right_together(buffer, begin[index], length, header)
        else:
            right = np.array([_is_right(buffer, start, length, header) for start in begin[index].tolist()])
        results[index] = np.where(right, Icrc.RIGHT, Icrc.WRONG)
    return results


def _right_together(buffer: Buffer, begin: NDArray[np.int64], length: int, header: Header) -> NDArray[np.bool_]:
    rows = buffer.rows(begin, length + 4)
    for place in header.changed:
        rows[:, place] = 0xFF
    rows[:, 0] |= header.first
    words = np.ascontiguousarray(rows.view("<u4").T)
    register = np.full(len(begin), REGISTER, np.uint32)
    for word in words[:-1]:
        register ^= word
        halves = register.view(np.uint16).reshape(-1, 2)
        lower, upper = (0, 1) if np.little_endian else (1, 0)
        register = _LOWER[halves[:, lower]] ^ _UPPER[halves[:, upper]]
    right: NDArray[np.bool_] = register ^ np.uint32(0xFFFFFFFF) == words[-1]
    return right


def _is_right(buffer: Buffer, begin: int, length: int, header: Header) -> bool:
    head = bytearray(buffer.memory[begin : begin + header.changed[-1] + 1])
    for place in header.changed:
        head[place] = 0xFF
    head[0] |= header.first
    value = zlib.crc32(buffer.memory[begin + len(head) : begin + length], zlib.crc32(head, zlib.crc32(LOCAL_HEADER)))
    return value == int.from_bytes(buffer.memory[begin + length : begin + length + 4], "little")
