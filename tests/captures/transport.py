"""Which extended headers each opcode has, and their bytes: written apart from the reader's own table."""

from __future__ import annotations

import struct
from typing import Protocol

RC, UC, RD, UD, CNP, XRC = range(6)
WITH_IMMEDIATE = {0x03, 0x05, 0x09, 0x0B}
WITH_RETH = {0x06, 0x0A, 0x0B, 0x0C, 0x1C, 0x1D}
WITH_AETH = {0x0D, 0x0F, 0x10, 0x11, 0x12}
ATOMIC_REQUESTS = {0x13, 0x14}
ATOMIC_ACKNOWLEDGE = 0x12
WITH_INVALIDATE = {0x16, 0x17}
FLUSH = 0x1C
RESPONSES = range(0x0D, 0x13)
IMMEDIATE = 0x0A0B0C0D
VIRTUAL_ADDRESS = 0x7F00_1234_5678
REMOTE_KEY = 0x1234


class Fields(Protocol):
    """What the headers are made from."""

    @property
    def opcode(self) -> int: ...
    @property
    def source_qp(self) -> int: ...
    @property
    def syndrome(self) -> int: ...
    @property
    def msn(self) -> int: ...
    @property
    def message(self) -> int: ...


def has_deth(opcode: int) -> bool:
    """Return whether a packet names the queue pair that sent it."""
    transport, operation = opcode >> 5, opcode & 31
    return transport == UD or (transport == RD and operation not in RESPONSES)


def has_reth(opcode: int) -> bool:
    """Return whether a packet announces the length of its message."""
    return opcode >> 5 in (RC, UC, RD, XRC) and opcode & 31 in WITH_RETH


def has_aeth(opcode: int) -> bool:
    """Return whether a packet acknowledges."""
    return opcode >> 5 in (RC, RD, XRC) and opcode & 31 in WITH_AETH


def extended_headers(packet: Fields) -> bytes:
    """Return the bytes between the base transport header and the payload."""
    transport, operation = packet.opcode >> 5, packet.opcode & 31
    if transport == CNP:
        return bytes(16)
    content = b""
    if transport == RD:
        content += struct.pack(">I", 0x000777)
    if has_deth(packet.opcode):
        content += struct.pack(">II", 0x80010000, packet.source_qp)
    if transport == XRC and operation not in RESPONSES:
        content += struct.pack(">I", 0x000888)
    if operation == FLUSH:
        content += struct.pack(">I", 0x21)
    return content + _of_operation(packet, operation)


def _of_operation(packet: Fields, operation: int) -> bytes:
    content = b""
    if has_reth(packet.opcode):
        content += struct.pack(">QII", VIRTUAL_ADDRESS, REMOTE_KEY, packet.message)
    if has_aeth(packet.opcode):
        content += struct.pack(">I", packet.syndrome << 24 | packet.msn)
    if operation == ATOMIC_ACKNOWLEDGE:
        content += struct.pack(">Q", 4711)
    if operation in ATOMIC_REQUESTS:
        content += struct.pack(">QIQQ", VIRTUAL_ADDRESS, REMOTE_KEY, 1, 2)
    if operation in WITH_IMMEDIATE:
        content += struct.pack(">I", IMMEDIATE)
    if operation in WITH_INVALIDATE:
        content += struct.pack(">I", REMOTE_KEY)
    return content
