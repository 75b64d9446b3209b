"""Addresses as small numbers: a hash table that numba reads and fills."""

from __future__ import annotations

import numpy as np
from numba import njit

from railbed.capture.files.addresses import MOST_ADDRESSES, AddressTable
from railbed.capture.files.compiled.headers import get, put
from railbed.capture.files.compiled.memory import Address, big4, big8, read8, write8

SLOT_BITS = 20
SLOTS = 1 << SLOT_BITS
OVERFULL = -1
HIGH, LOW, VERSION, NUMBERS, TOTAL = 0, 1, 2, 3, 4
"""Places of the parts of a table."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(64 - SLOT_BITS)


class Known:
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
