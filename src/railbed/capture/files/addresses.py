"""Addresses as small numbers: a hash table for the many packets of known addresses, a dictionary for new ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.packets import NO_ADDRESS

SLOTS_BITS = 16
MOST_ADDRESSES = 1 << 18
"""More than any fabric has: a file with more is read up to there."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - SLOTS_BITS)


class TooManyAddresses(Exception):
    """A file contains more addresses than are counted."""


class _Slots:
    """A hash table of one family: each slot has the number of one address, or 0."""

    def __init__(self) -> None:
        self.high = np.zeros(1 << SLOTS_BITS, np.uint64)
        self.low = np.zeros(1 << SLOTS_BITS, np.uint64)
        self.numbers = np.zeros(1 << SLOTS_BITS, np.uint32)


class AddressTable:
    """Numbers for addresses, from 1 in the order of their discovery; 0 is no address."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int, int], int] = {}
        """By version, upper and lower half."""
        self._slots = {4: _Slots(), 6: _Slots()}

    def ipv4(self, addresses: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the numbers of IPv4 addresses."""
        return self._numbered(4, np.zeros(len(addresses), np.uint64), addresses.astype(np.uint64))

    def ipv6(self, addresses: NDArray[Any]) -> NDArray[np.uint32]:
        """Return the numbers of IPv6 addresses, each of 16 bytes."""
        halves = np.ascontiguousarray(addresses).view(">u8").astype(np.uint64).reshape(-1, 2)
        return self._numbered(6, halves[:, 0], halves[:, 1])

    def _numbered(self, version: int, high: NDArray[np.uint64], low: NDArray[np.uint64]) -> NDArray[np.uint32]:
        table = self._slots[version]
        slots = ((low ^ high * _MULTIPLIER) * _MULTIPLIER >> _SHIFT).astype(np.int64)
        numbers = table.numbers[slots]
        unknown = (table.low[slots] != low) | (numbers == 0)
        if version == 6:
            unknown |= table.high[slots] != high
        if unknown.any():
            index = np.flatnonzero(unknown)
            pairs = np.stack([high[index], low[index]], axis=1)
            distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
            assigned = [self.assign(version, first, second) for first, second in distinct.tolist()]
            numbers[index] = np.array(assigned, np.uint32)[inverse.ravel()]
            free = index[table.numbers[slots[index]] == 0]
            table.numbers[slots[free]] = numbers[free]
            table.low[slots[free]] = low[free]
            table.high[slots[free]] = high[free]
        return numbers

    def assign(self, version: int, high: int, low: int) -> int:
        """Return the number of one address."""
        number = self.numbers.setdefault((version, high, low), len(self.numbers) + 1)
        if number > MOST_ADDRESSES:
            raise TooManyAddresses
        return number

    def in_order(self) -> tuple[tuple[str, ...], NDArray[np.uint32]]:
        """Return the addresses as text in numerical order, IPv4 first, and the place of each number among them."""
        keys = sorted(self.numbers)
        places = np.full(max(self.numbers.values(), default=0) + 1, NO_ADDRESS, np.uint32)
        for place, key in enumerate(keys):
            places[self.numbers[key]] = place
        return tuple(_text(*key) for key in keys), places


def _text(version: int, high: int, low: int) -> str:
    return str(IPv4Address(low) if version == 4 else IPv6Address(high << 64 | low))
