"""Every opcode of the base transport header: its name, its transport, and the headers that follow it.

What an opcode does is in tables of 256 entries, where a whole column is looked up at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class IbTransport(IntEnum):
    """The upper three bits of an opcode."""

    RC = 0
    UC = 1
    RD = 2
    UD = 3
    CNP = 4
    XRC = 5


HEADER_BYTES = {
    "RDETH": 4,
    "DETH": 8,
    "XRCETH": 4,
    "FETH": 4,
    "RETH": 16,
    "AtomicETH": 28,
    "AETH": 4,
    "AtomicAckETH": 8,
    "ImmDt": 4,
    "IETH": 4,
    "CNP": 16,
}
"""Extended headers, and the reserved bytes of a CNP."""
CNP_OPCODE = 0x81


@dataclass(frozen=True, slots=True)
class Opcode:
    """One kind of packet."""

    code: int
    transport: IbTransport
    operation: str
    """As the specification has it, without the transport."""
    headers: tuple[str, ...]
    """The extended headers, in order."""

    @property
    def name(self) -> str:
        """Return the full name, as Wireshark writes it."""
        return "CNP" if self.transport is IbTransport.CNP else f"{self.transport.name} {self.operation}"

    @property
    def header_bytes(self) -> int:
        """Return the bytes between the base transport header and the payload."""
        return sum(HEADER_BYTES[name] for name in self.headers)

    def offset(self, header: str) -> int | None:
        """Return where an extended header begins, counted from the end of the base transport header."""
        if header not in self.headers:
            return None
        return sum(HEADER_BYTES[name] for name in self.headers[: self.headers.index(header)])


_OPERATIONS: dict[int, tuple[str, tuple[str, ...]]] = {
    0x00: ("SEND First", ()),
    0x01: ("SEND Middle", ()),
    0x02: ("SEND Last", ()),
    0x03: ("SEND Last with Immediate", ("ImmDt",)),
    0x04: ("SEND Only", ()),
    0x05: ("SEND Only with Immediate", ("ImmDt",)),
    0x06: ("RDMA WRITE First", ("RETH",)),
    0x07: ("RDMA WRITE Middle", ()),
    0x08: ("RDMA WRITE Last", ()),
    0x09: ("RDMA WRITE Last with Immediate", ("ImmDt",)),
    0x0A: ("RDMA WRITE Only", ("RETH",)),
    0x0B: ("RDMA WRITE Only with Immediate", ("RETH", "ImmDt")),
    0x0C: ("RDMA READ Request", ("RETH",)),
    0x0D: ("RDMA READ Response First", ("AETH",)),
    0x0E: ("RDMA READ Response Middle", ()),
    0x0F: ("RDMA READ Response Last", ("AETH",)),
    0x10: ("RDMA READ Response Only", ("AETH",)),
    0x11: ("Acknowledge", ("AETH",)),
    0x12: ("ATOMIC Acknowledge", ("AETH", "AtomicAckETH")),
    0x13: ("CmpSwap", ("AtomicETH",)),
    0x14: ("FetchAdd", ("AtomicETH",)),
    0x15: ("RESYNC", ()),
    0x16: ("SEND Last with Invalidate", ("IETH",)),
    0x17: ("SEND Only with Invalidate", ("IETH",)),
    0x1C: ("FLUSH", ("FETH", "RETH")),
    0x1D: ("ATOMIC WRITE", ("RETH",)),
}
_SENDS_AND_WRITES = range(0x0C)
_RESPONSES = range(0x0D, 0x13)
_OFFERED = {
    IbTransport.RC: {*range(0x15), 0x16, 0x17, 0x1C, 0x1D},
    IbTransport.UC: {*_SENDS_AND_WRITES},
    IbTransport.RD: {*range(0x16), 0x1C, 0x1D},
    IbTransport.UD: {0x04, 0x05},
    IbTransport.XRC: {*range(0x15), 0x16, 0x17},
}
RESPONSES = frozenset(
    transport << 5 | operation
    for transport in (IbTransport.RC, IbTransport.RD, IbTransport.XRC)
    for operation in _RESPONSES
)
"""Opcodes that a responder sends: acknowledgements and the data of reads."""


def _leading(transport: IbTransport, operation: int) -> tuple[str, ...]:
    """Return the headers that the transport itself puts before those of the operation."""
    match transport:
        case IbTransport.RD:
            return ("RDETH",) if operation in _RESPONSES else ("RDETH", "DETH")
        case IbTransport.UD:
            return ("DETH",)
        case IbTransport.XRC if operation not in _RESPONSES:
            return ("XRCETH",)
    return ()


def _all_opcodes() -> dict[int, Opcode]:
    opcodes = {CNP_OPCODE: Opcode(CNP_OPCODE, IbTransport.CNP, "CNP", ("CNP",))}
    for transport, offered in _OFFERED.items():
        for operation in sorted(offered):
            name, headers = _OPERATIONS[operation]
            code = transport << 5 | operation
            opcodes[code] = Opcode(code, transport, name, (*_leading(transport, operation), *headers))
    return opcodes


OPCODES = _all_opcodes()
"""Every opcode by its number; the others are reserved, or belong to a manufacturer."""


def opcode_name(code: int) -> str:
    """Return the name of an opcode; of one that is not assigned, its number."""
    opcode = OPCODES.get(code)
    return opcode.name if opcode else f"opcode {code:#04x}"


TRANSPORTS = {0: "RC", 1: "UC", 2: "RD", 3: "UD", 5: "XRC"}
"""The upper three bits of an opcode."""


class Role(IntEnum):
    """What a packet is for a flow."""

    OTHER = 0
    REQUEST = 1
    DATA = 2
    """A response with the data of a READ."""
    ACK = 3
    """An acknowledgement or a refusal."""
    NOTICE = 4
    """A congestion notification."""


class RdmaOperation(IntEnum):
    """What a request asks for."""

    NONE = 0
    SEND = 1
    WRITE = 2
    READ = 3
    ATOMIC = 4
    FLUSH = 5


_SEND, _WRITE = (0, 1, 2, 3, 4, 5, 22, 23), (6, 7, 8, 9, 10, 11)
_READ, _ATOMIC, _FLUSH = (12,), (19, 20, 29), (28,)
_DATA, _ACKS = (13, 14, 15, 16), (17, 18)


def _table(lows: Iterable[int], tops: Iterable[int] = TRANSPORTS) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    for top in tops:
        table[[top << 5 | low for low in lows]] = True
    return table


OPERATION = np.zeros(256, np.uint8)
for _operation, _lows in ((1, _SEND), (2, _WRITE), (3, _READ), (4, _ATOMIC), (5, _FLUSH)):
    OPERATION[_table(_lows)] = _operation
ROLE = np.zeros(256, np.uint8)
ROLE[OPERATION > 0] = Role.REQUEST
ROLE[_table(_DATA)] = Role.DATA
ROLE[_table(_ACKS)] = Role.ACK
ROLE[CNP_OPCODE] = Role.NOTICE
STARTS = _table((0, 4, 5, 23, 6, 10, 11, 12, 19, 20, 28, 29))
"""The first packet of a message."""
ENDS = _table((2, 3, 4, 5, 22, 23, 8, 9, 10, 11, 12, 19, 20, 28, 29))
"""The last packet of a message."""
FULL = _table((0, 1, 6, 7, 13, 14))
"""A packet that another one of the same message follows: its payload is as large as the path allows."""
ANSWERS_FIRST = _table((13, 16, 17, 18))
"""An answer with the sequence number of a request."""
ORDERED = _table(range(32), tops=(0, 1, 2, 5))
"""A connection whose sequence numbers have no gaps; datagrams of a queue pair go to many."""


def transport(opcode: int) -> str:
    """Return the transport of an opcode."""
    return "CNP" if opcode == CNP_OPCODE else TRANSPORTS.get(opcode >> 5, "unknown")
