"""Forks ranks: `python -m railbed.launch.node.forkserver SOCKET MODULE…`, started by a node's agent.

It loads modules once, torch among them, and forks a rank from itself on request: a rank then runs at once instead of
seconds later. Forking is safe because nothing but loading happens here: no thread runs, no device is in use. The ranks
end with it, as it ends with the agent.

Requests: {"id", "name", "module", "arguments", "env", "inherits"} with file descriptors: one for the output, and one
for each name in `inherits`, which stands in the arguments as `{name}`.
Answers: {"ready"} once, {"id", "pid"} when a rank runs, {"id", "code"} when it has ended.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
REQUEST_BYTES = 65536
MOST_DESCRIPTORS = 3
LIBC = ctypes.CDLL(None)


class ForkServer:
    """Forks ranks and reports their ends."""

    def __init__(self, agent: socket.socket) -> None:
        self._agent = agent
        self._ranks: dict[int, int] = {}
        self._pid = os.getpid()
        self._ended, self._wake = os.pipe()

    def serve(self) -> None:
        """Serve the agent until it is gone."""
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        self._send(ready=True)
        watched: list[socket.socket | int] = [self._agent, self._ended]
        while True:
            readable, _, _ = select.select(watched, [], [])
            if self._ended in readable:
                os.read(self._ended, REQUEST_BYTES)
                self._reap()
            if self._agent in readable:
                request, descriptors, _, _ = socket.recv_fds(self._agent, REQUEST_BYTES, MOST_DESCRIPTORS)
                if not request:
                    return
                self._fork(json.loads(request), *descriptors)

    def _fork(self, request: dict[str, Any], output: int, *inherited: int) -> None:
        pid = os.fork()
        if not pid:
            self._become(request, output, inherited)
        os.setpgid(pid, pid)  # before the agent gets its number, so that it can end the whole group
        for descriptor in (output, *inherited):
            os.close(descriptor)
        self._ranks[pid] = request["id"]
        self._send(id=request["id"], pid=pid)

    def _become(self, request: dict[str, Any], output: int, inherited: Sequence[int]) -> None:
        """Become the rank, as `python -m MODULE ARGUMENTS` would be; does not return."""
        code = 1
        try:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._pid:
                os._exit(code)
            LIBC.prctl(PR_SET_NAME, request["name"].encode())
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._agent.close()
            for descriptor in (self._ended, self._wake):
                os.close(descriptor)
            for standard in (1, 2):
                os.dup2(output, standard)
            os.close(output)
            os.environ.update(request["env"])
            descriptors = dict(zip(request["inherits"], inherited, strict=True))
            sys.argv = [request["module"], *fill_in(request["arguments"], descriptors)]
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while self._ranks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in self._ranks:
                self._send(id=self._ranks.pop(pid), code=os.waitstatus_to_exitcode(status))

    def _send(self, **message: object) -> None:
        self._agent.send(json.dumps(message).encode())


def fill_in(arguments: Sequence[str], descriptors: Mapping[str, int]) -> list[str]:
    """Return arguments with the numbers of file descriptors in place of `{name}`."""
    filled = list(arguments)
    for name, descriptor in descriptors.items():
        filled = [part.replace(f"{{{name}}}", str(descriptor)) for part in filled]
    return filled


def main() -> None:
    """Load the modules and serve."""
    agent = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # loading creates no garbage, and torch so many objects that searching them takes a while
    for module in sys.argv[2:]:
        importlib.import_module(module)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        sys.exit(f"{', '.join(sys.argv[2:])} started {threads - 1} threads: a fork would lose them")
    gc.freeze()
    gc.enable()
    ForkServer(agent).serve()


if __name__ == "__main__":
    main()
