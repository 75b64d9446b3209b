"""A `railbed` that runs beside a test, forked from the process that has loaded the command line."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.preloaded import Server

PIECE_BYTES = 1 << 16
FOREVER = 1e6


class Background:
    """The process, with what the tests use of Popen.

    Its input is empty, its output is a pipe; its errors are one, too, or go where those of the tests go.
    """

    def __init__(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors_shown: bool = False
    ) -> None:
        self.args = ["railbed", *arguments]
        self.returncode: int | None = None
        self._server = Server()  # its own: a server waits for the end of one process at a time
        out, err = os.pipe(), os.pipe()
        self.stdout, self.stderr = os.fdopen(out[0], "rb"), os.fdopen(err[0], "rb")
        ours = [os.open(os.devnull, os.O_RDONLY), out[1], err[1]]
        try:
            streams = [*ours[:2], 2 if errors_shown else ours[2]]
            self.pid = self._server._start(arguments, cwd, env, streams)
        finally:
            for descriptor in ours:
                os.close(descriptor)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None and not select.select([self._server], [], [], 0)[0]:
            return None
        return self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code."""
        if self.returncode is None:
            try:
                self.returncode = self._server.await_end(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._server.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Read all that it still prints, close its pipes, and wait for its end."""
        deadline = time.monotonic() + (timeout or FOREVER)
        pieces: dict[int, list[bytes]] = {self.stdout.fileno(): [], self.stderr.fileno(): []}
        reading = list(pieces)
        while reading:
            readable = select.select(reading, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not readable:
                raise subprocess.TimeoutExpired(self.args, timeout or FOREVER)
            for pipe in readable:
                pieces[pipe].append(os.read(pipe, PIECE_BYTES))
                if not pieces[pipe][-1]:
                    reading.remove(pipe)
        self.stdout.close()
        self.stderr.close()
        self.wait(max(0.0, deadline - time.monotonic()))
        out, err = (b"".join(received) for received in pieces.values())
        return out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close its pipes and wait for its end, as Popen does."""
        self.stdout.close()
        self.stderr.close()
        self.wait()
