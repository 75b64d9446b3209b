"""Write the columns of a packet whose transport header was found: the second half of what numba compiles.

That includes its invariant CRC, four bytes at a time, and its addresses as small numbers, in a hash table.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railbed.capture.files import layers, transport
from railbed.capture.files.addresses import MOST_ADDRESSES, AddressTable
from railbed.capture.files.compiled import headers
from railbed.capture.files.compiled.headers import get, put
from railbed.capture.files.compiled.memory import (
    Address,
    big2,
    big4,
    big8,
    little4,
    read1,
    read8,
    write1,
    write2,
    write4,
    write8,
)
from railbed.capture.files.transport import Header
from railbed.capture.opcodes import CNP_OPCODE
from railbed.capture.packets import COLUMNS, NO_SYNDROME, Bit, Icrc, Kind

MASKED_WORDS = 16
IPV4, IPV6, GRH = 0, 1, 2
"""What precedes the transport: rows of MASKS."""


def _masks(header: Header) -> list[int]:
    covered = bytearray(4 * MASKED_WORDS)
    for place in header.changed:
        covered[place] = 0xFF
    covered[0] |= header.first
    return [int.from_bytes(covered[place : place + 4], "little") for place in range(0, len(covered), 4)]


MASKS = np.array([_masks(header) for header in (transport.IPV4, transport.IPV6, transport.GRH)], np.int64)
"""What counts as ones."""
BYTES = transport.register_tables().astype(np.int64)
REGISTER = transport.REGISTER


@njit(cache=True, nogil=True)
def is_right(begin: Address, end: Address, form: int) -> bool:
    """Return whether the CRC at `end` is that of the packet from `begin`, whose header has this form."""
    register = REGISTER
    position, word = begin, 0
    while position + 4 <= end:
        value = little4(position)
        if word < MASKED_WORDS:
            value |= int(MASKS[form, word])
        register ^= value
        first, second = int(BYTES[3, register & 0xFF]), int(BYTES[2, register >> 8 & 0xFF])
        register = first ^ second ^ int(BYTES[1, register >> 16 & 0xFF]) ^ int(BYTES[0, register >> 24])
        position += 4
        word += 1
    while position < end:
        register = int(BYTES[0, (register ^ read1(position)) & 0xFF]) ^ register >> 8
        position += 1
    return register ^ 0xFFFFFFFF == little4(end)


DECODED = tuple(name for name in COLUMNS.names or () if name not in ("number", "time", "length"))
"""The columns that come from the packet itself, in order."""
_PLACE = {name: place for place, name in enumerate(DECODED)}
SOURCE, DESTINATION, ROW = _PLACE["source"], _PLACE["destination"], len(DECODED)
KIND, OPCODE, SOURCE_PORT, TOS = _PLACE["kind"], _PLACE["opcode"], _PLACE["source_port"], _PLACE["tos"]
VLAN, QP, SOURCE_QP, PSN, BITS = _PLACE["vlan"], _PLACE["qp"], _PLACE["source_qp"], _PLACE["psn"], _PLACE["bits"]
KEY, PAYLOAD, SYNDROME, MSN = _PLACE["key"], _PLACE["payload"], _PLACE["syndrome"], _PLACE["msn"]
MESSAGE, ICRC = _PLACE["message"], _PLACE["icrc"]
"""Places of the columns; behind them is the row of each packet in its chunk."""
ROCE2, CNP = int(Kind.ROCE2), int(Kind.CNP)
RIGHT, WRONG, NOT_CAPTURED = int(Icrc.RIGHT), int(Icrc.WRONG), int(Icrc.NOT_CAPTURED)
CUT = int(Bit.CUT)
BTH_BYTES = layers.BTH_BYTES
TABLES = np.stack([layers.HEADER_BYTES, layers.AETH_OFFSET, layers.RETH_OFFSET, layers.DETH_OFFSET], axis=1)
"""By opcode: the length of the extended headers, and where those that are read begin; -1 if there are none."""


@njit(cache=True, nogil=True)
def write_transport(state: Address, stop: Address, columns: Address, index: int) -> None:
    """Write the columns of a packet, apart from its addresses."""
    position = get(state, headers.POSITION)
    opcode, kind = read1(position), get(state, headers.KIND)
    qp, psn = big4(position + 4), big4(position + 8)
    write1(get(columns, KIND) + index, CNP if kind == ROCE2 and opcode == CNP_OPCODE else kind)
    write1(get(columns, OPCODE) + index, opcode)
    write2(get(columns, SOURCE_PORT) + 2 * index, get(state, headers.SOURCE_PORT))
    write1(get(columns, TOS) + index, get(state, headers.TOS))
    write2(get(columns, VLAN) + 2 * index, get(state, headers.VLAN))
    write4(get(columns, QP) + 4 * index, qp & 0xFFFFFF)
    write4(get(columns, PSN) + 4 * index, psn & 0xFFFFFF)
    write2(get(columns, KEY) + 2 * index, big2(position + 2))
    write4(get(columns, PAYLOAD) + 4 * index, get(state, headers.PAYLOAD))
    is_cut = stop - position < BTH_BYTES + TABLES[opcode, 0]
    flags = read1(position + 1)
    bits = psn >> 31 | (flags >> 7) << 1 | (qp >> 31) << 2 | (qp >> 30 & 1) << 3 | (flags >> 6 & 1) << 4
    write1(get(columns, BITS) + index, bits | CUT if is_cut else bits)
    _write_extended(position + BTH_BYTES, -1 if is_cut else opcode, columns, index)
    write1(get(columns, ICRC) + index, _check_icrc(state, stop))


@njit(cache=True, nogil=True)
def _write_extended(behind: Address, opcode: int, columns: Address, index: int) -> None:
    """Write what the extended headers contain; opcode -1 has none."""
    syndrome, msn, message, source_qp = NO_SYNDROME, 0, 0, 0
    if opcode >= 0:
        aeth, reth, deth = TABLES[opcode, 1], TABLES[opcode, 2], TABLES[opcode, 3]
        if aeth >= 0:
            word = big4(behind + aeth)
            syndrome, msn = word >> 24, word & 0xFFFFFF
        if reth >= 0:
            message = big4(behind + reth + 12)
        if deth >= 0:
            source_qp = big4(behind + deth + 4) & 0xFFFFFF
    write1(get(columns, SYNDROME) + index, syndrome)
    write4(get(columns, MSN) + 4 * index, msn)
    write4(get(columns, MESSAGE) + 4 * index, message)
    write4(get(columns, SOURCE_QP) + 4 * index, source_qp)


@njit(cache=True, nogil=True)
def _check_icrc(state: Address, stop: Address) -> int:
    end = get(state, headers.POSITION) + get(state, headers.CONTENT)
    if not get(state, headers.PLAIN) or end > stop:
        return NOT_CAPTURED
    form = IPV4 if get(state, headers.VERSION) == 4 else IPV6
    if get(state, headers.KIND) != ROCE2:
        form = GRH
    return RIGHT if is_right(get(state, headers.NETWORK), end - 4, form) else WRONG


SLOT_BITS = 20
SLOTS = 1 << SLOT_BITS
OVERFULL = -1
HIGH, LOW, VERSION, NUMBERS, TOTAL = 0, 1, 2, 3, 4
"""Places of the parts of a table."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(64 - SLOT_BITS)


class KnownAddresses:
    """Addresses by number, from 1, and a hash table of numbers."""

    def __init__(self) -> None:
        sizes = {
            HIGH: MOST_ADDRESSES + 1,
            LOW: MOST_ADDRESSES + 1,
            VERSION: MOST_ADDRESSES + 1,
            NUMBERS: SLOTS,
            TOTAL: 1,
        }
        self.parts = [np.zeros(size, np.int64) for size in sizes.values()]
        self.places = np.array([part.ctypes.data for part in self.parts])

    def name(self, addresses: AddressTable) -> None:
        """Give new addresses the same numbers in the table of the file."""
        high, low, version, _, total = self.parts
        for number in range(len(addresses.numbers) + 1, int(total[0]) + 1):
            halves = (int(half[number]) & 0xFFFFFFFFFFFFFFFF for half in (high, low))
            addresses.assign(int(version[number]), *halves)


@njit(cache=True, nogil=True)
def _number(known: Address, version: int, high: int, low: int) -> int:
    """Return the number of an address, a new one if need be; OVERFULL if there are too many."""
    mixed = (np.uint64(low) ^ np.uint64(high) * MULTIPLIER ^ np.uint64(version)) * MULTIPLIER
    slot = int(np.int64(mixed >> SHIFT))
    numbers, highs, lows, versions = get(known, NUMBERS), get(known, HIGH), get(known, LOW), get(known, VERSION)
    number = get(numbers, slot)
    while number:
        if get(lows, number) == low and get(highs, number) == high and get(versions, number) == version:
            return number
        slot = (slot + 1) & (SLOTS - 1)
        number = get(numbers, slot)
    number = read8(get(known, TOTAL)) + 1
    if number > MOST_ADDRESSES:
        return OVERFULL
    put(numbers, slot, number)
    put(highs, number, high)
    put(lows, number, low)
    put(versions, number, version)
    write8(get(known, TOTAL), number)
    return number


@njit(cache=True, nogil=True)
def source_number(known: Address, version: int, header: Address) -> int:
    """Return the number of the source in an IP header."""
    if version == 4:
        return int(_number(known, 4, 0, big4(header + 12)))
    return int(_number(known, 6, big8(header + 8), big8(header + 16)))


@njit(cache=True, nogil=True)
def destination_number(known: Address, version: int, header: Address) -> int:
    """Return the number of the destination in an IP header."""
    if version == 4:
        return int(_number(known, 4, 0, big4(header + 16)))
    return int(_number(known, 6, big8(header + 24), big8(header + 32)))
