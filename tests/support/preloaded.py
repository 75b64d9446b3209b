"""`railbed` processes that start at once: forked from a process that has loaded the command line.

Loading takes 0.4 to 1 s of processor time per start, and the suite starts it hundreds of times. A fork has everything
that makes a process: its working folder, environment, signals, streams and exit code, and if need be its own terminal.
`background.py` lets one run beside a test. Tests of how a process starts, of keys and of pipes start `RAILBED` itself.

This file is both sides: the tests import it, and `python -m tests.support.preloaded LISTENING TESTS` is the process
that forks: for each process that runs tests a server, which forks one `railbed` after another.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Self

import railbed
from tests.support.workers import ForkingProcess

REQUEST_BYTES = 1 << 20
READY_SECONDS = 120.0
PRELOADED = ("asyncssh", "jinja2", "ruamel.yaml", "rich.live", "rich.progress", "rich.table")
NOT_HERE = ("railbed.train.worker", "railbed.train.models", "railbed.bench.collective.worker", "railbed.collective")
"""Only ranks load these, and torch with them."""


class Server:
    """The process that forks for this one, as seen from the tests."""

    def __init__(self) -> None:
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link.settimeout(READY_SECONDS)
        self._link.connect(process().door)
        assert self._receive() == {"ready": True}

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `railbed` to its end, as `subprocess.run` does with captured output; it is killed after the time-out."""
        with Streams(stdin) as streams:
            pid = self._start(arguments, cwd, env, streams.descriptors)
            try:
                code = self.await_end(timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self.await_end(READY_SECONDS)
                raise subprocess.TimeoutExpired(["railbed", *arguments], timeout, *streams.read()) from None
            return subprocess.CompletedProcess(["railbed", *arguments], code, *streams.read())

    def show(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float) -> str:
        """Run `railbed` on a terminal of its own to its end; return what the terminal received."""
        ours, theirs = pty.openpty()
        pid = self._start(arguments, cwd, {**env, "TERM": "xterm"}, [theirs] * 3, terminal=True)
        os.close(theirs)
        received = b""
        with suppress(OSError):  # how a terminal reports that nobody has it open any more
            while select.select([ours], [], [], timeout)[0]:
                received += os.read(ours, REQUEST_BYTES)
            os.kill(pid, signal.SIGKILL)  # it hangs
        os.close(ours)
        self.await_end(READY_SECONDS)
        return received.decode(errors="replace")

    def _start(
        self,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        descriptors: Sequence[int],
        *,
        terminal: bool = False,
    ) -> int:
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "terminal": terminal}
        socket.send_fds(self._link, [json.dumps(request).encode()], descriptors)
        self._link.settimeout(READY_SECONDS)
        pid: int = self._receive()["pid"]
        return pid

    def await_end(self, timeout: float | None) -> int:
        """Return the exit code of the process that was started; raise TimeoutError if it runs for longer."""
        self._link.settimeout(timeout)
        code: int = self._receive()["code"]
        return code

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the process that was started ends."""
        return self._link.fileno()

    def close(self) -> None:
        """End the process that forks."""
        self._link.close()

    def _receive(self) -> dict[str, Any]:
        received = self._link.recv(REQUEST_BYTES)
        assert received, "the preloaded process is gone"
        message: dict[str, Any] = json.loads(received)
        return message


class Streams:
    """Standard input, output and error of a process, as files that need not be read while it runs."""

    def __init__(self, stdin: bytes) -> None:
        self.descriptors = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        os.write(self.descriptors[0], stdin)
        os.lseek(self.descriptors[0], 0, os.SEEK_SET)

    def read(self) -> tuple[bytes, bytes]:
        """Return what was written to standard output and to standard error."""
        out, err = (os.pread(number, os.fstat(number).st_size, 0) for number in self.descriptors[1:])
        return out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


@cache
def process() -> ForkingProcess:
    """Return the process that loads the command line, once it is needed; forks of this process share it."""
    started, mine = ForkingProcess("tests.support.preloaded"), os.getpid()
    atexit.register(lambda: started.close() if os.getpid() == mine else None)
    return started


@cache
def server() -> Server:
    """Return the server of this test process."""
    started = Server()
    atexit.register(started.close)
    return started


def serve(client: socket.socket) -> None:
    """Fork one `railbed` after another until the tests are gone."""
    send(client, ready=True)
    while True:
        request, descriptors, _, _ = socket.recv_fds(client, REQUEST_BYTES, 3)
        if not request:
            return
        pid = os.fork()
        if not pid:
            client.close()
            become_railbed(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        send(client, pid=pid)
        send(client, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def send(client: socket.socket, **message: object) -> None:
    client.send(json.dumps(message).encode())


def become_railbed(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Run the command line as the program `railbed` does, and end this process."""
    code = 1
    try:
        for standard, descriptor in enumerate(descriptors):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        if request["terminal"]:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["railbed", *request["arguments"]]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
        )
        from railbed.__main__ import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def modules_of_railbed() -> Iterator[str]:
    """Yield the modules that the command line may load; verbs load theirs when they run."""
    source = Path(railbed.__path__[0]).parent
    for path in sorted(Path(railbed.__path__[0]).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(NOT_HERE) and not name.endswith(".__main__"):
            yield name


def load() -> None:
    """Load everything that verbs load."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts threads otherwise
    for name in (*PRELOADED, *modules_of_railbed()):
        importlib.import_module(name)
    importlib.import_module("railbed.cli.main").make_app()
    events = importlib.import_module("railbed.model.events")
    for name in events.all_events():
        with suppress(ValueError):  # most need data; but then what reads them exists
            events.parse(name, subject="", message="", data={}, time=0.0)
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, f"loading started {len(threads) - 1} threads, which a fork would lose"
    gc.freeze()


def main() -> None:
    """Wait until the first process that runs tests comes; then load, and fork a server for each."""
    listening, tests = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    # Ctrl-C goes to all processes of a terminal; this one is needed until the tests have taken down their labs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # servers end with their tests
    loaded = False
    while tests not in select.select([listening, tests], [], [])[0]:
        if not loaded:
            load()
        loaded = True
        client, _ = listening.accept()
        if not os.fork():
            listening.close()
            tests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(client)
            return
        client.close()


if __name__ == "__main__":
    main()
