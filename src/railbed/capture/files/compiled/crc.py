"""The invariant CRC of one packet, four bytes at a time, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from railbed.capture.files import icrc
from railbed.capture.files.compiled.memory import Address, little4, read1
from railbed.capture.files.icrc import Header

MASKED_WORDS = 16
IPV4, IPV6, GRH = 0, 1, 2
"""What precedes the transport: rows of MASKS."""


def _masks(header: Header) -> list[int]:
    covered = bytearray(4 * MASKED_WORDS)
    for place in header.changed:
        covered[place] = 0xFF
    covered[0] |= header.first
    return [int.from_bytes(covered[place : place + 4], "little") for place in range(0, len(covered), 4)]


MASKS = np.array([_masks(header) for header in (icrc.IPV4, icrc.IPV6, icrc.GRH)], np.int64)
"""What counts as ones."""
BYTES = icrc.register_tables().astype(np.int64)
REGISTER = icrc.REGISTER


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
