"""Which tokens a step trains on: a pure function of seed, step and index, the same on any number of ranks.

The training tokens are cut into windows. An epoch is a permutation of all windows, computed one by one and never
stored: a Feistel network over the next power of two, applied repeatedly until the result is a window. So the state of
the data is just the step, and a step's global batch does not depend on the ranks that compute it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import fsum

ROUNDS = 6
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
"""The odd constant of splitmix64, whose finaliser is the round function."""


def window_of(seed: int, step: int, index: int, *, global_batch: int, windows: int) -> int:
    """Return the window that is sequence `index` of the global batch of a step; steps are counted from 0."""
    epoch, position = divmod(step * global_batch + index, windows)
    return permute(position, windows, key_of(seed, epoch))


def window_count(tokens: int, context: int) -> int:
    """Return how many windows of `context` tokens, each with the token that follows it, fit."""
    return max(0, (tokens - 1) // context)


def key_of(seed: int, *parts: int) -> int:
    """Return a 64-bit key for the seed and the parts; other parts give an unrelated key."""
    key = mix_bits(seed)
    for part in parts:
        key = mix_bits(key ^ part)
    return key


def permute(position: int, size: int, key: int) -> int:
    """Return the image of a position, from 0 to size - 1, in the permutation of a key."""
    if size <= 1:
        return 0
    bits = max(2, (size - 1).bit_length())
    while True:
        position = _feistel(position, bits, key)
        if position < size:
            return position


def _feistel(value: int, bits: int, key: int) -> int:
    """Return a permutation of the numbers below 2**bits; halves of unequal size swap their sizes every round."""
    low = bits // 2
    high = bits - low
    left, right = value >> low, value & ((1 << low) - 1)
    for number in range(ROUNDS):
        left, right = right, left ^ (mix_bits(key ^ (right * ROUNDS + number)) & ((1 << high) - 1))
        low, high = high, low
    return left << low | right


def mix_bits(value: int) -> int:
    """Return splitmix64's finaliser of a number: every bit of the result depends on every bit of the input."""
    value = (value + GOLDEN) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def deal(global_batch: int, shares: Sequence[float], *, least: int = 0) -> tuple[range, ...]:
    """Return each rank's sequences of the global batch, so that the slowest rank finishes as early as possible.

    Every rank gets its share rounded down; the remaining sequences go, one by one, to the rank that would finish first,
    the lower rank first. A share of zero gets nothing, any other at least `least` if there are enough sequences.
    """
    total = fsum(shares)  # the same to the last bit in every version of Python
    if not shares or total <= 0 or min(shares) < 0:
        raise ValueError("shares must be zero or more, and at least one above zero")
    workers = [rank for rank, share in enumerate(shares) if share > 0]
    if least * len(workers) > global_batch:
        least = 0
    free = global_batch - least * len(workers)
    counts = [max(least, int(free * share / total)) if share > 0 else 0 for share in shares]
    while sum(counts) < global_batch:
        counts[min(workers, key=lambda rank: ((counts[rank] + 1) / shares[rank], rank))] += 1
    starts = [sum(counts[:rank]) for rank in range(len(counts))]
    return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))


def deal_by_size(sizes: Sequence[int], shares: Sequence[float]) -> tuple[range, ...]:
    """Return each rank's sequences of the global batch if these have different sizes: its share of the tokens.

    Every rank's part ends at the sequence whose end is closest to the end of its share.
    """
    total = fsum(shares)
    if not shares or total <= 0 or min(shares) < 0:
        raise ValueError("shares must be zero or more, and at least one above zero")
    ends = list(accumulate(sizes, initial=0))
    bounds = [0]
    for rank in range(len(shares) - 1):
        goal = ends[-1] * fsum(shares[: rank + 1]) / total
        after = min(bisect_left(ends, goal, lo=bounds[-1]), len(sizes))
        before = max(bounds[-1], after - 1)
        bounds.append(before if goal - ends[before] <= ends[after] - goal else after)
    return tuple(range(start, stop) for start, stop in pairwise([*bounds, len(sizes)]))


def pieces(part: range, limit: int) -> list[range]:
    """Return a rank's sequences cut into micro-batches of at most `limit`.

    All have the same size if that takes at most twice as many (a compiled model then has one shape); otherwise sizes
    differ by one.
    """
    if not part:
        return []
    fewest = -(-len(part) // max(1, limit))
    number = next((number for number in range(fewest, 2 * fewest) if len(part) % number == 0), fewest)
    bounds = [part.start + len(part) * index // number for index in range(number + 1)]
    return [range(start, stop) for start, stop in pairwise(bounds)]
