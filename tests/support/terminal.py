"""A terminal for a program: reads its output, types input, and can be hung up."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 60.0


class Terminal:
    """A program in a session of its own, with a pseudo-terminal that controls it."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.output = ""
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**env, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  (no threads)
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    def read(self, until: str | Callable[[str], bool] = "") -> str:
        """Read until a text or state appears, or without one until the program ends; return the complete output."""
        deadline = time.monotonic() + SECONDS
        while not until or not (until(self.output) if callable(until) else until in self.output):
            assert time.monotonic() < deadline, self.output
            if select.select([self._ours], [], [], 0.2)[0]:
                try:
                    self.output += os.read(self._ours, 65536).decode(errors="replace")
                except OSError:  # how a terminal tells that nobody has it open any more
                    assert not until, self.output
                    break
        return self.output

    def type(self, text: str) -> None:
        """Type on its keyboard."""
        os.write(self._ours, text.encode())

    def hang_up(self) -> None:
        """Close the window."""
        if self._ours >= 0:
            os.close(self._ours)
        self._ours = -1


def _take_terminal() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` ignores it, and so would what we start
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
