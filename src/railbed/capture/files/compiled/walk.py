"""Find where records begin, one after another, compiled by numba."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from railbed.capture.files.compiled.memory import Address, big4, little4
from railbed.capture.files.formats.blocks import SECTION, SHORTEST_BLOCK
from railbed.capture.files.formats.pcap import LONGEST_PACKET, RECORD


@njit(cache=True, nogil=True)
def word(address: Address, is_big: bool) -> int:
    return big4(address) if is_big else little4(address)


@njit(cache=True, nogil=True)
def walk_pcap(data: Address, position: int, end: int, is_big: bool, starts: NDArray[np.int64]) -> tuple[int, int]:
    """Write where records begin; return how many, and where the walk ended."""
    count = 0
    while position + RECORD <= end:
        captured = word(data + position + 8, is_big)
        following = position + RECORD + captured
        if captured > LONGEST_PACKET or following > end:
            break
        starts[count] = position
        count += 1
        position = following
    return count, position


@njit(cache=True, nogil=True)
def walk_blocks(data: Address, position: int, end: int, is_big: bool, starts: NDArray[np.int64]) -> tuple[int, int]:
    """Write where blocks begin; return how many, and where the walk ended."""
    count = 0
    while position + SHORTEST_BLOCK <= end:
        length = word(data + position + 4, is_big)
        following = position + length
        if length < SHORTEST_BLOCK or length & 3 or following > end or big4(data + position) == SECTION:
            break
        if word(data + following - 4, is_big) != length:
            break
        starts[count] = position
        count += 1
        position = following
    return count, position


@njit(cache=True, nogil=True)
def pcap_fields(
    data: Address,
    starts: NDArray[np.int64],
    is_big: bool,
    unit: int,
    time: NDArray[np.int64],
    captured: NDArray[np.int64],
    length: NDArray[np.uint32],
) -> None:
    """Write the times, captured bytes and lengths of records."""
    for index in range(len(starts)):
        record = data + starts[index]
        time[index] = word(record, is_big) * 1_000_000_000 + word(record + 4, is_big) * unit
        captured[index] = word(record + 8, is_big)
        length[index] = word(record + 12, is_big)
