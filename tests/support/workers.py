"""The processes of pytest-xdist, forked from one that has collected the tests.

By itself, pytest-xdist starts processes that each load railbed, torch and all modules of the tests, and in a fresh
clone rewrite every assertion. Here one process does so; the workers are forks of it and only list their tests.

pytest-xdist starts a worker as `python -u -c PROGRAM` and sends tests and results over its standard input and output.
This file takes the place of that Python: it passes its streams and the program to the process that forks, and ends
with the worker. If pytest-xdist kills it, the worker is killed too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import execnet
    import pytest

REQUEST_BYTES = 1 << 16
MOST_WAITING = 64
END_SECONDS = 10.0


class ForkingProcess:
    """A process, `python -m MODULE LISTENING TESTS ARGUMENTS`, that forks for everybody who comes to its door.

    The two numbers are sockets: one accepts connections, the other ends when this process and its forks have ended.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> None:
        import subprocess
        import tempfile
        from pathlib import Path

        self._folder = Path(tempfile.mkdtemp(prefix="railbed-forks-"))  # nobody else may come in
        self.door = str(self._folder / "door")
        self._tests, theirs = socket.socketpair()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening, theirs:
            listening.bind(self.door)
            listening.listen(MOST_WAITING)
            files = (listening.fileno(), theirs.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, files), *arguments],
                cwd=Path(__file__).parents[2],
                env={**os.environ, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=files,
            )
        os.register_at_fork(after_in_child=self._disown)

    def _disown(self) -> None:
        """Leave the process to the one that started it; the socket stays open until this fork ends."""
        self._process.returncode = 0
        self._tests.detach()

    def close(self) -> None:
        """End it, when its forks have ended."""
        import shutil
        import subprocess

        self._tests.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # something that a test left behind is a fork, too
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder)


def fork_workers(config: pytest.Config, specs: Sequence[execnet.XSpec]) -> None:
    """Have pytest-xdist use forks of a process that collects the same tests."""
    import shlex

    called = config.invocation_params
    process = ForkingProcess("tests.support.workers", [str(called.dir), *called.args])
    config.add_cleanup(process.close)
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-IS", __file__, process.door])


def call(door: str, program: str) -> None:
    """Have a worker forked that runs a program with the streams of this process, and wait for its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C, the worker still takes down its labs
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(door)
        socket.send_fds(link, [program.encode()], [0, 1, 2])
        os.close(0)
        os.close(1)  # the end of the worker is the end of its output
        pid = json.loads(link.recv(REQUEST_BYTES))
        select.select([os.pidfd_open(pid)], [], [])


class Forks:
    """The workers, as seen from the process that forks them."""

    def __init__(self, listening: socket.socket, tests: socket.socket) -> None:
        self._listening, self._tests = listening, tests
        self._workers: dict[socket.socket, int] = {}

    def serve(self) -> str | None:
        """Fork until the tests are done; return the program of a worker in the worker, and None in the end."""
        while True:
            readable, _, _ = select.select([self._listening, self._tests, *self._workers], [], [])
            if self._tests in readable:
                return None
            for link in self._workers.keys() & set(readable):
                self._end(link)
            if self._listening in readable and (program := self._fork(self._listening.accept()[0])):
                return program

    def _fork(self, link: socket.socket) -> str | None:
        program, streams, _, _ = socket.recv_fds(link, REQUEST_BYTES, 3)
        if not program:  # the call was killed before it sent its program
            link.close()
            return None
        if pid := os.fork():
            for stream in streams:
                os.close(stream)
            self._workers[link] = pid
            with contextlib.suppress(BrokenPipeError):  # the call was killed meanwhile, which `serve` reads next
                link.send(json.dumps(pid).encode())
            return None
        for inherited in (self._listening, self._tests, link, *self._workers):
            inherited.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return program.decode()

    def _end(self, link: socket.socket) -> None:
        """Reap a worker whose call has ended; it is still running if the call was killed."""
        pid = self._workers.pop(link)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        link.close()


def serve(listening: socket.socket, tests: socket.socket) -> None:
    """Fork workers until the tests are done; in a worker, run its program."""
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is needed until the workers have ended
    if program := Forks(listening, tests).serve():
        signal.signal(signal.SIGINT, interrupted)
        sys.argv = ["-c"]
        exec(program, {"__name__": "__main__"})  # noqa: S102  (as `python -c` does)


def main() -> None:
    """Collect the tests, and fork workers."""
    import gc
    import importlib
    from pathlib import Path

    import pytest

    from tests.support import preloaded, torch_process

    listening, tests = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    preloaded.process()  # the workers share it …
    torch_process.process()  # … and this one
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts threads otherwise
    os.chdir(sys.argv[3])
    pytest.main([*sys.argv[4:], "-n", "0", "--collect-only", "--quiet"])
    if "transformers" in sys.modules:
        for name in torch_process.TUNING:  # which they would load on first use, for seconds
            importlib.import_module(name)
    del os.environ["OPENBLAS_NUM_THREADS"]
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"collecting started {len(threads) - 1} threads, which a fork would lose"
    gc.freeze()
    serve(listening, tests)


if __name__ == "__main__":
    if __package__:
        main()
    else:
        call(sys.argv[1], sys.argv[-1])
