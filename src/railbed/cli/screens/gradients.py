"""How the gradients travel, on the screen: in short beside the bar, in a line when that changes, in full at the end."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from railbed.cli.screens.text import STYLES
from railbed.model.printable import printable
from railbed.model.record import Event, Verdict


class PathLine:
    """The newest word on it."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._latest: Event | None = None

    def take(self, event: Event) -> None:
        """Take the newest; one of another verdict is told at once, with what to do."""
        before = self._latest.data["verdict"] if self._latest else None
        self._latest = event
        if event.data["verdict"] != before:
            self._say(event.message, self._style())
            if remedy := event.data.get("remedy"):
                self._say(f"→ {remedy}", "cyan")

    @property
    def short(self) -> str:
        """Return three words to stand beside others."""
        return f", {self._latest.data['short']}" if self._latest else ""

    def finish(self, console: Console) -> None:
        """Say it in full."""
        if self._latest:
            console.print(Text(printable(self._latest.message), style=self._style()))

    def _style(self) -> str:
        assert self._latest is not None
        return STYLES[Verdict(str(self._latest.data["verdict"]))]
