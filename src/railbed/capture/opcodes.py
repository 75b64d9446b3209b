"""Every opcode of the base transport header: its name, its transport, and the headers that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Transport(IntEnum):
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
    transport: Transport
    operation: str
    """As the specification has it, without the transport."""
    headers: tuple[str, ...]
    """The extended headers, in order."""

    @property
    def name(self) -> str:
        """Return the full name, as Wireshark writes it."""
        return "CNP" if self.transport is Transport.CNP else f"{self.transport.name} {self.operation}"

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
    Transport.RC: {*range(0x15), 0x16, 0x17, 0x1C, 0x1D},
    Transport.UC: {*_SENDS_AND_WRITES},
    Transport.RD: {*range(0x16), 0x1C, 0x1D},
    Transport.UD: {0x04, 0x05},
    Transport.XRC: {*range(0x15), 0x16, 0x17},
}
RESPONSES = frozenset(
    transport << 5 | operation for transport in (Transport.RC, Transport.RD, Transport.XRC) for operation in _RESPONSES
)
"""Opcodes that a responder sends: acknowledgements and the data of reads."""


def _leading(transport: Transport, operation: int) -> tuple[str, ...]:
    """Return the headers that the transport itself puts before those of the operation."""
    match transport:
        case Transport.RD:
            return ("RDETH",) if operation in _RESPONSES else ("RDETH", "DETH")
        case Transport.UD:
            return ("DETH",)
        case Transport.XRC if operation not in _RESPONSES:
            return ("XRCETH",)
    return ()


def _all_opcodes() -> dict[int, Opcode]:
    opcodes = {CNP_OPCODE: Opcode(CNP_OPCODE, Transport.CNP, "CNP", ("CNP",))}
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
