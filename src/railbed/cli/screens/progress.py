"""Progress on standard error: one line that is redrawn on a terminal, and an occasional plain line elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from railbed.cli.screens.activity import Activity
from railbed.model.record import Record
from railbed.model.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

DRAW_SECONDS = 0.5
"""Interval between two drawings; shorter activities are not drawn at all."""
PLAIN_SECONDS = ((60.0, 10.0), (600.0, 30.0), (float("inf"), 60.0))
"""Without a terminal: end of a phase, and seconds between two lines in it."""
BARS = "━─", "#-"
REST_OF_LINE, FAINT = "\x1b[K", ("\x1b[2m", "\x1b[0m")
WIDTH = 80


class ProgressLine:
    """Shows an activity until it is stopped. A thread draws it, even while the program is busy."""

    def __init__(self, *, shown: bool = True) -> None:
        self.activity = Activity()
        self._shown = shown
        self._on_terminal = shown and is_terminal()
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._console: Console | None = None
        self._drawn = False
        self._began = self._quiet_since = time.monotonic()

    def __enter__(self) -> Self:
        if self._shown and self._thread is None:
            self._began = self._quiet_since = time.monotonic()
            self._thread = threading.Thread(target=self._draw_on, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def take(self, record: Record) -> None:
        """Learn from a record."""
        with self._lock:
            self.activity.take(record)

    def print_line(self, text: str, style: str = "") -> None:
        """Print a line that stays."""
        with self._lock, suppress(OSError, ValueError):  # nothing reads the output
            self._wipe()
            if self._on_terminal:
                # Imported here because drawing is slow to load and often not needed.
                from rich.text import Text

                self._terminal().print(Text(printable(text), style=style))
            else:
                _write(f"{printable(text)}\n")
            self._quiet_since = time.monotonic()

    def clear(self) -> None:
        """Take the line away until the next activity begins: something else is shown, or asked."""
        with self._lock, suppress(OSError, ValueError):
            self._wipe()
            self.activity.begin("")

    def end(self) -> None:
        """Show that processes are being ended; a signal handler may call this."""
        if not self.activity.ending:
            self.activity.begin("ending")
            self.activity.ending = True

    def stop(self) -> None:
        """Remove the line."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock, suppress(OSError, ValueError):
            self._wipe()

    def _draw_on(self) -> None:
        while not self._stopped.wait(DRAW_SECONDS):
            with self._lock, suppress(OSError, ValueError):
                if self.activity.what and self._on_terminal:
                    self._draw()
                elif self.activity.what and self._is_due():
                    self.print_line(self.activity.line())

    def _draw(self) -> None:
        can_draw = "utf" in (getattr(sys.stderr, "encoding", None) or "").lower()
        width = _width()
        line = fitted(self.activity.line(bar=BARS[not can_draw], width=width), width)
        faint, plain = ("", "") if os.environ.get("NO_COLOR") else FAINT
        _write(f"\r{faint}{line}{plain}{REST_OF_LINE}")
        self._drawn = True

    def _wipe(self) -> None:
        if self._drawn:
            _write(f"\r{REST_OF_LINE}")
        self._drawn = False

    def _is_due(self) -> bool:
        now = time.monotonic()
        pause = next(pause for until, pause in PLAIN_SECONDS if now - self._began < until + pause)
        return now - self._quiet_since >= pause

    def _terminal(self) -> Console:
        if self._console is None:
            from railbed.cli.console import SafeConsole

            self._console = SafeConsole(stderr=True, highlight=False)
        return self._console


def is_terminal() -> bool:
    """Whether a line on standard error can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def working(what: str, *, usual: float | None = None, shown: bool = True) -> Iterator[Activity]:
    """Show the progress of work outside a verb's records; the caller updates the activity."""
    line = ProgressLine(shown=shown)
    line.activity.begin(what, usual=usual)
    with line:
        yield line.activity


def fitted(line: str, width: int) -> str:
    """Return a line shorter than `width` columns, so that the cursor stays on it."""
    columns = 0
    for at, char in enumerate(line):
        columns += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if columns >= width:
            return line[:at]
    return line


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _write(text: str) -> None:
    """Write clean text, bypassing the stream that would remove our own control characters."""
    stream = sys.stderr
    while inner := getattr(stream, "rich_proxied_file", None):
        stream = inner
    stream.write(text)
    stream.flush()
