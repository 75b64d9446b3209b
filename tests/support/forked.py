"""Ranks forked by the real fork server, as on a node: no rank loads torch."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import queue
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from railbed.launch.node.forkserver import REQUEST_BYTES
from railbed.launch.node.spawn import end_with_parent
from railbed.train.ranks import PRELOAD
from tests.support import torch_process

READY_SECONDS = 120.0
PROGRAM = f"""
import os, runpy, sys
agent, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
sys.argv[1:] = [str(agent), *{PRELOAD!r}]
runpy.run_module("railbed.launch.node.forkserver", run_name="__main__", alter_sys=True)
"""
"""The fork server gets its socket as standard input."""


class Forked:
    """A rank's process, with what the tests use of Popen."""

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self._pids: queue.Queue[int] = queue.Queue()
        self._ended = threading.Event()

    def await_pid(self) -> None:
        self.pid = self._pids.get(timeout=READY_SECONDS)

    def handle(self, *, pid: int = 0, code: int | None = None) -> None:
        """Handle a message of the fork server about it."""
        if code is None:
            self._pids.put(pid)
        else:
            self.returncode = code
            self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        if not self._ended.wait(timeout) or self.returncode is None:
            raise TimeoutError(f"process {self.pid} did not end within {timeout:g} s")
        return self.returncode


class ForkServer:
    """One fork server, and the ranks that came from it."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                torch_process.command(PROGRAM),
                stdin=theirs.fileno(),
                preexec_fn=end_with_parent,  # noqa: PLW1509  (it makes one call into the kernel)
            )
        self._environment = dict(os.environ)
        self._ranks: dict[int, Forked] = {}
        self._numbers = itertools.count()
        self._ready = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()
        assert self._ready.wait(READY_SECONDS), "the fork server is not ready"

    def fork(self, module: str, arguments: Sequence[str], output: int, messages: int) -> Forked:
        """Start a rank; `{messages}` in the arguments stands for that descriptor."""
        number, rank = next(self._numbers), Forked()
        self._ranks[number] = rank
        changed = {name: value for name, value in os.environ.items() if self._environment.get(name) != value}
        request = {"id": number, "name": "rank", "module": module, "arguments": list(arguments), "env": changed}
        request["inherits"] = ["messages"]
        socket.send_fds(self._link, [json.dumps(request).encode()], [output, messages])
        rank.await_pid()
        return rank

    def _hear(self) -> None:
        while received := self._link.recv(REQUEST_BYTES):
            message = json.loads(received)
            if "ready" in message:
                self._ready.set()
            else:
                self._ranks[message.pop("id")].handle(**message)

    def close(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)


@cache
def fork_server() -> ForkServer:
    """Return the fork server of this test process."""
    made = ForkServer()
    atexit.register(made.close)
    return made
