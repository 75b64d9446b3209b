"""A screen whose bar stands on standard error for as long as the verb runs."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import Progress

from railbed.cli.screen import Screen


class BarScreen(Screen):
    """Begins the bar and takes it away again, however the verb ends."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
