"""Decode InfiniBand's transport headers of many packets with numpy: base header, extended headers, invariant CRC."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files import icrc, layers
from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.frames import Frames
from railbed.capture.opcodes import CNP_OPCODE
from railbed.capture.packets import NO_SYNDROME, Bit, Kind

NUMBER = np.dtype(">u4")
LOWER_24 = np.uint32(0xFFFFFF)


def decode_transport(frames: Frames, kind: Kind, addresses: AddressTable) -> dict[str, NDArray[Any]]:
    """Return the columns of packets whose base transport header comes next; its length and payload are known."""
    header = frames.header(layers.BTH)
    opcode = header["opcode"].copy()
    qp, psn = header["qp"].astype(np.uint32), header["psn"].astype(np.uint32)
    cut = frames.left < layers.HEADER_BYTES[opcode] + layers.BTH_BYTES
    count = len(frames)
    columns: dict[str, NDArray[Any]] = {
        "kind": np.full(count, kind, np.uint8),
        "opcode": opcode,
        "source_port": frames.values["source_port"].astype(np.uint16),
        "tos": frames.values["tos"].copy(),
        "vlan": frames.values["vlan"],
        "qp": qp & LOWER_24,
        "psn": psn & LOWER_24,
        "bits": _bits(header["flags"], qp, psn, cut),
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
    versions = frames.values["source"].dtype.itemsize
    number = addresses.ipv4 if versions == 4 else addresses.ipv6
    columns["source"], columns["destination"] = number(frames.values["source"]), number(frames.values["destination"])
    columns["icrc"] = _check_icrc(frames, kind, is_ipv4=versions == 4)
    return columns


def _bits(
    flags: NDArray[np.uint8], qp: NDArray[np.uint32], psn: NDArray[np.uint32], cut: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    congestion = (qp >> np.uint32(30)).astype(np.uint8)
    bits = (psn >> np.uint32(31)).astype(np.uint8) | (flags >> 7) << 1 | (congestion >> 1) << 2 | (congestion & 1) << 3
    bits |= (flags >> 6 & 1) << 4
    bits |= cut.view(np.uint8) * np.uint8(Bit.CUT)
    return bits.astype(np.uint8, copy=False)


def _read_extended(
    frames: Frames, opcode: NDArray[np.uint8], cut: NDArray[np.bool_], columns: dict[str, NDArray[Any]]
) -> None:
    for index, words in _extended(frames, opcode, cut, layers.AETH_OFFSET, 0):
        columns["syndrome"][index] = words >> np.uint32(24)
        columns["msn"][index] = words & LOWER_24
    for index, words in _extended(frames, opcode, cut, layers.RETH_OFFSET, 12):
        columns["message"][index] = words
    for index, words in _extended(frames, opcode, cut, layers.DETH_OFFSET, 4):
        columns["source_qp"][index] = words & LOWER_24


def _extended(
    frames: Frames, opcode: NDArray[np.uint8], cut: NDArray[np.bool_], offsets: NDArray[np.int64], place: int
) -> list[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
    """Return for each place at which the header occurs the packets that have it, and their word at `place` in it."""
    places = offsets[opcode]
    places[cut] = -1
    index = np.flatnonzero(places >= 0)
    results = []
    for offset in np.unique(places[index]).tolist():
        having = index[places[index] == offset]
        words = frames.header(NUMBER, layers.BTH_BYTES + offset + place)[having].astype(np.uint32)
        results.append((having, words))
    return results


def _check_icrc(frames: Frames, kind: Kind, *, is_ipv4: bool) -> NDArray[np.uint8]:
    results = np.zeros(len(frames), np.uint8)
    position = frames.position
    end = position + frames.values["content"]
    index = np.flatnonzero(frames.values["plain"] & (end <= frames.stop))
    if len(index):
        header = icrc.IPV4 if is_ipv4 else icrc.GRH if kind is Kind.ROCE1 else icrc.IPV6
        results[index] = icrc.check(frames.window, position[index] - header.length, end[index], header)
    return results
