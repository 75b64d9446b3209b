"""Write the columns of a packet whose transport header was found: the second half of what numba compiles."""

from __future__ import annotations

import numpy as np
from numba import njit

from railbed.capture.files import layers
from railbed.capture.files.compiled import crc, headers
from railbed.capture.files.compiled.headers import get
from railbed.capture.files.compiled.memory import Address, big2, big4, read1, write1, write2, write4
from railbed.capture.opcodes import CNP_OPCODE
from railbed.capture.packets import COLUMNS, NO_SYNDROME, Bit, Icrc, Kind

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
    form = crc.IPV4 if get(state, headers.VERSION) == 4 else crc.IPV6
    if get(state, headers.KIND) != ROCE2:
        form = crc.GRH
    return RIGHT if crc.is_right(get(state, headers.NETWORK), end - 4, form) else WRONG
