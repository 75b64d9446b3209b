"""What a file format yields: where the packets of a window are, and what the format itself says about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.formats.lanes import Chain, Positions


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records of a window, one row each."""

    start: NDArray[np.int64]
    """Where the packet's bytes begin in the window."""
    captured: NDArray[np.int64]
    length: NDArray[np.uint32]
    time: NDArray[np.int64]
    link: NDArray[np.uint8]
    """A Link for each."""

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def empty(cls) -> Records:
        """Return no records."""
        none = np.empty(0, np.int64)
        return cls(none, none, none.astype(np.uint32), none, none.astype(np.uint8))

    @classmethod
    def together(cls, parts: list[Records]) -> Records:
        """Return records that follow each other as one."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((part.start, part.captured, part.length, part.time, part.link) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns)) if parts else cls.empty()

    def part(self, begin: int, end: int) -> Records:
        """Return some of them."""
        part = slice(begin, end)
        return Records(self.start[part], self.captured[part], self.length[part], self.time[part], self.link[part])


@dataclass(slots=True)
class FileState:
    """What reading the format itself found out."""

    snap_length: int = 0
    dropped: int | None = None
    truncated: bool = False
    damage: str = ""
    """Why reading ended early, as a sentence."""


class Walk(Protocol):
    """How to find where records begin: in lanes with numpy, or one after another with numba."""

    def __call__(self, chain: Chain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
        """Return where the records begin, and where the walk ended."""
