"""Decoded chunks, up to a limit: the least recently used are dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from railbed.store.series.chunk import Chunk

MOST_BYTES = 256 << 20

T = TypeVar("T", bound=np.generic)


class ArrayCache:
    """Arrays by key, each joined from the chunks of a block, to which chunks may be added."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._arrays: OrderedDict[Hashable, tuple[int, NDArray[Any]]] = OrderedDict()

    def extended(
        self, key: Hashable, chunks: Sequence[Chunk], decode: Callable[[Chunk], NDArray[T]], *, axis: int
    ) -> NDArray[T]:
        """Return the decoded chunks of a block as one array; only new chunks are decoded."""
        count, array = self._arrays.pop(key, (0, None))
        if array is not None and count == len(chunks):
            self._arrays[key] = count, array
            return array
        parts = [] if array is None else [array]
        parts += [decode(chunk) for chunk in chunks[count:]]
        joined: NDArray[T] = np.concatenate(parts, axis=axis)
        self._bytes += joined.nbytes - (0 if array is None else array.nbytes)
        self._arrays[key] = len(chunks), joined
        while self._bytes > self._most_bytes and len(self._arrays) > 1:
            _, (_, dropped) = self._arrays.popitem(last=False)
            self._bytes -= dropped.nbytes
        return joined
