"""Decode InfiniBand's transport headers of many packets with numpy: base header, extended headers, invariant CRC.

The CRC covers the packet from its IP header (or global route header), with ones for whatever a router changes, behind
eight bytes of ones for the local header that RoCE lacks.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files import layers
from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.layers import Frames
from railbed.capture.files.source import Buffer
from railbed.capture.opcodes import CNP_OPCODE
from railbed.capture.packets import NO_SYNDROME, Bit, Icrc, Kind

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


def _advance(values: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    """Return the registers after so many bytes of zeros."""
    for _ in range(8 * count):
        values = (values >> np.uint32(1)) ^ np.where(values & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    return values


_LOWER = _advance(np.arange(1 << 16, dtype=np.uint32), 4)
_UPPER = _advance(np.arange(1 << 16, dtype=np.uint32) << np.uint32(16), 4)
REGISTER = zlib.crc32(LOCAL_HEADER) ^ 0xFFFFFFFF
"""The register behind the local header."""


def register_tables() -> NDArray[np.uint32]:
    """Return the register after each byte and none to three bytes of zeros."""
    every = np.arange(256, dtype=np.uint32)
    return np.stack([_advance(every, count) for count in range(1, 5)])


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


BYTE = np.dtype("u1")
NUMBER = np.dtype(">u4")
LOWER_24 = np.uint32(0xFFFFFF)
LONGEST_HEADERS = int(layers.TRANSPORT_BYTES.max())
_OF_OPCODE = list(zip(*(table.tolist() for table in layers.OFFSETS), strict=True))
OFFSETS = sorted(set(_OF_OPCODE))
"""Where AETH, RETH and DETH begin, for each combination that occurs; the first has none of them."""
FORMS = np.array([OFFSETS.index(offsets) for offsets in _OF_OPCODE], np.uint8)
"""The combination of each opcode."""


def decode_transport(frames: Frames, kind: Kind, addresses: AddressTable) -> dict[str, NDArray[Any]]:
    """Return the columns of packets whose base transport header comes next; its length and payload are known."""
    header = frames.header(layers.BTH)
    opcode = header["opcode"].copy()
    count = len(frames)
    cut = np.zeros(count, bool)
    if not frames.all_have(LONGEST_HEADERS):
        cut = frames.left < frames.values["headers"]
    columns: dict[str, NDArray[Any]] = {
        "kind": np.full(count, kind, np.uint8),
        "opcode": opcode,
        "source_port": frames.values["source_port"].astype(np.uint16),
        "tos": frames.values["tos"].copy(),
        "vlan": frames.values["vlan"],
        "qp": header["qp"].astype(np.uint32) & LOWER_24,
        "psn": header["psn"].astype(np.uint32) & LOWER_24,
        "bits": _bits(frames, cut),
        "key": header["key"].astype(np.uint16),
        "payload": frames.values["payload"].astype(np.uint32),
        "source_qp": np.zeros(count, np.uint32),
        "syndrome": np.full(count, NO_SYNDROME, np.uint8),
        "msn": np.zeros(count, np.uint32),
        "message": np.zeros(count, np.uint32),
    }
    if kind is Kind.ROCE2:
        columns["kind"][opcode == CNP_OPCODE] = Kind.CNP
    _read_extended(frames, opcode, cut, columns)
    is_ipv4 = "addresses" in frames.values
    if is_ipv4:
        columns["source"], columns["destination"] = addresses.ipv4(frames.values["addresses"])
    else:
        columns["source"] = addresses.ipv6(frames.values["source"])
        columns["destination"] = addresses.ipv6(frames.values["destination"])
    columns["icrc"] = _check_icrc(frames, kind, is_ipv4=is_ipv4)
    return columns


def _bits(frames: Frames, cut: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Collect the flags from three bytes of the header."""
    flags, congestion, request = (frames.header(BYTE, place).copy() for place in (1, 4, 8))
    bits = request >> 7 | flags >> 6 & 2 | congestion >> 5 & 4 | congestion >> 3 & 8 | flags >> 2 & 16
    bits |= cut.view(np.uint8) * np.uint8(Bit.CUT)
    return bits.astype(np.uint8, copy=False)


def _read_extended(
    frames: Frames, opcode: NDArray[np.uint8], cut: NDArray[np.bool_], columns: dict[str, NDArray[Any]]
) -> None:
    """Read what extended headers contain: few opcodes have some, and few of those combinations occur."""
    form = FORMS[opcode]
    if cut.any():
        form[cut] = 0
    index = np.flatnonzero(form)
    for number in np.unique(form[index]).tolist():
        having = index[form[index] == number]
        aeth, reth, deth = OFFSETS[number]
        if aeth >= 0:
            words = frames.header(NUMBER, layers.BTH_BYTES + aeth)[having].astype(np.uint32)
            columns["syndrome"][having] = words >> np.uint32(24)
            columns["msn"][having] = words & LOWER_24
        if reth >= 0:
            columns["message"][having] = frames.header(NUMBER, layers.BTH_BYTES + reth + 12)[having]
        if deth >= 0:
            words = frames.header(NUMBER, layers.BTH_BYTES + deth + 4)[having].astype(np.uint32)
            columns["source_qp"][having] = words & LOWER_24


def _check_icrc(frames: Frames, kind: Kind, *, is_ipv4: bool) -> NDArray[np.uint8]:
    results = np.zeros(len(frames), np.uint8)
    position = frames.position
    end = position + frames.values["content"]
    index = np.flatnonzero(frames.values["plain"] & (end <= frames.stop))
    if len(index):
        header = IPV4 if is_ipv4 else GRH if kind is Kind.ROCE1 else IPV6
        results[index] = check(frames.buffer, position[index] - header.length, end[index], header)
    return results
