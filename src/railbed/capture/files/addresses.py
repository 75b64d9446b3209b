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
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - SLOTS_BITS)
Numbers = NDArray[np.uint32]


class TooManyAddresses(Exception):
    """A file contains more addresses than are counted."""


class _Slots:
    """A hash table of pairs of numbers: each slot has the result for one key, or 0."""

    def __init__(self) -> None:
        self.high = np.zeros(1 << SLOTS_BITS, np.uint64)
        self.low = np.zeros(1 << SLOTS_BITS, np.uint64)
        self.first = np.zeros(1 << SLOTS_BITS, np.uint32)
        self.second = np.zeros(1 << SLOTS_BITS, np.uint32)


class AddressTable:
    """Numbers for addresses, from 1 in the order of their discovery; 0 is no address."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int, int], int] = {}
        """By version, upper and lower half."""
        self._ipv4, self._ipv6 = _Slots(), _Slots()

    def ipv4(self, pairs: NDArray[Any]) -> tuple[Numbers, Numbers]:
        """Return the numbers of IPv4 sources and destinations, which stand behind each other in a header."""
        table, keys = self._ipv4, pairs.astype(np.uint64)
        slots = keys * _MULTIPLIER >> _SHIFT
        first: Numbers = table.first[slots]
        second: Numbers = table.second[slots]
        index = np.flatnonzero((table.low[slots] != keys) | (first == 0))
        if len(index):
            distinct, inverse = np.unique(keys[index], return_inverse=True)
            assigned = [
                [self.assign(4, 0, half) for half in (key >> 32, key & 0xFFFFFFFF)] for key in distinct.tolist()
            ]
            first[index], second[index] = np.array(assigned, np.uint32)[inverse].T
            free = index[table.first[slots[index]] == 0]
            table.first[slots[free]], table.second[slots[free]] = first[free], second[free]
            table.low[slots[free]] = keys[free]
        return first, second

    def ipv6(self, addresses: NDArray[Any]) -> Numbers:
        """Return the numbers of IPv6 addresses, each of 16 bytes."""
        halves = np.ascontiguousarray(addresses).view(">u8").astype(np.uint64).reshape(-1, 2)
        table, high, low = self._ipv6, halves[:, 0], halves[:, 1]
        slots = (low ^ high * _MULTIPLIER) * _MULTIPLIER >> _SHIFT
        numbers: Numbers = table.first[slots]
        index = np.flatnonzero((table.low[slots] != low) | (table.high[slots] != high) | (numbers == 0))
        if len(index):
            distinct, inverse = np.unique(halves[index], axis=0, return_inverse=True)
            assigned = [self.assign(6, *pair) for pair in distinct.tolist()]
            numbers[index] = np.array(assigned, np.uint32)[inverse.ravel()]
            free = index[table.first[slots[index]] == 0]
            table.first[slots[free]] = numbers[free]
            table.low[slots[free]], table.high[slots[free]] = low[free], high[free]
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
