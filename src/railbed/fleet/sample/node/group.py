"""What every source of counters has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class CounterGroup(ABC):
    """Counters of the same source and port, which are read together."""

    source: str
    port: str
    names: Sequence[str]
    """Of its counters, as the kernel or the driver calls them."""

    @abstractmethod
    def read(self) -> list[int | None]:
        """Return the value of each counter, None for one that could not be read; may raise OSError."""

    def has_changed(self) -> bool:
        """Whether it has other counters than before."""
        return False

    def close(self) -> None:  # noqa: B027  (most hold nothing open)
        """Close what it holds open."""
