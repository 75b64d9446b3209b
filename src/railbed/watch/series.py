"""The time series of a verb's run: stored in its folder, from the sampling that goes on beside the verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from railbed.errors import UsageError
from railbed.fleet.sample import SHORTEST_SECONDS
from railbed.model.meters import Sample

if TYPE_CHECKING:
    from railbed.store.series import SeriesWriter


class RunSeries:
    """Takes samples once the run has a folder."""

    def __init__(self, interval: float) -> None:
        """Refuse an interval that sampling cannot hold; 0 means that nothing is sampled."""
        if 0 < interval < SHORTEST_SECONDS:
            raise UsageError(
                f"samples are taken at most every {SHORTEST_SECONDS:g} s, not every {interval:g} s",
                hint=f"use {SHORTEST_SECONDS:g} or more, or 0 for no samples",
            )
        self.interval = interval
        self.folder: Path | None = None
        """Of the run, while there is one."""
        self._writer: SeriesWriter | None = None

    @contextmanager
    def stored_in(self, run: Path) -> Iterator[None]:
        """Store samples in the folder of a run; at the end, complete what is stored."""
        self.folder = run
        try:
            yield
        finally:
            self.folder = None
            self._close()

    def take(self, sample: Sample) -> None:
        """Store a sample. Raises UsageError if that is not possible, such as on a full disk."""
        if self.folder is None:
            return
        if self._writer is None:
            from railbed.store.series import SeriesWriter  # numpy is slow to load, and many runs have no samples

            self._writer = SeriesWriter(self.folder)
        self._writer.append(sample)

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.close()
