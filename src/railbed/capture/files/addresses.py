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
_MULTIPLIER4, _SHIFT4 = np.uint32(0x9E3779B1), np.uint32(32 - SLOTS_BITS)
_MULTIPLIER6, _SHIFT6 = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - SLOTS_BITS)


class TooManyAddresses(Exception):
    """A file contains more addresses than are counted."""


class _Slots:
    """A hash table of one family: each slot has the number of one address, or 0."""

    def __init__(self, kind: type[np.uint32 | np.uint64]) -> None:
        self.high = np.zeros(1 << SLOTS_BITS, np.uint64)
        self.low = np.zeros(1 << SLOTS_BITS, kind)
        self.numbers = np.zeros(1 << SLOTS_BITS, np.uint32)


class AddressTable:
    """Numbers for addresses, from 1 in the order of their discovery; 0 is no address."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int, int], int] = {}
        """By version, upper and lower half."""
        self._ipv4, self._ipv6 = _Slots(np.uint32), _Slots(np.uint64)

    def ipv4(self, addresses: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the numbers of IPv4 addresses."""
        table, low = self._ipv4, addresses.astype(np.uint32)
        slots = low * _MULTIPLIER4 >> _SHIFT4
        numbers: NDArray[np.uint32] = table.numbers[slots]
        index = np.flatnonzero((table.low[slots] != low) | (numbers == 0))
        if len(index):
            distinct, inverse = np.unique(low[index], return_inverse=True)
            assigned = [self.assign(4, 0, address) for address in distinct.tolist()]
            numbers[index] = np.array(assigned, np.uint32)[inverse]
            free = index[table.numbers[slots[index]] == 0]
            table.numbers[slots[free]], table.low[slots[free]] = numbers[free], low[free]
        return numbers

    def ipv6(self, addresses: NDArray[Any]) -> NDArray[np.uint32]:
        """Return the numbers of IPv6 addresses, each of 16 bytes."""
        halves = np.ascontiguousarray(addresses).view(">u8").astype(np.uint64).reshape(-1, 2)
        table, high, low = self._ipv6, halves[:, 0], halves[:, 1]
        slots = (low ^ high * _MULTIPLIER6) * _MULTIPLIER6 >> _SHIFT6
        numbers: NDArray[np.uint32] = table.numbers[slots]
        index = np.flatnonzero((table.low[slots] != low) | (table.high[slots] != high) | (numbers == 0))
        if len(index):
            distinct, inverse = np.unique(halves[index], axis=0, return_inverse=True)
            assigned = [self.assign(6, *pair) for pair in distinct.tolist()]
            numbers[index] = np.array(assigned, np.uint32)[inverse.ravel()]
            free = index[table.numbers[slots[index]] == 0]
            table.numbers[slots[free]] = numbers[free]
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
