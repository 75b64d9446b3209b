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
        header = icrc.IPV4 if is_ipv4 else icrc.GRH if kind is Kind.ROCE1 else icrc.IPV6
        results[index] = icrc.check(frames.buffer, position[index] - header.length, end[index], header)
    return results
