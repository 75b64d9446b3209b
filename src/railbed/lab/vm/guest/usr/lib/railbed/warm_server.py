"""Serves `warm.py`: loads modules once, and forks into the programs that it is sent."""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADER = struct.Struct("=I")
MOST_FILES = 200
FIRST_FREE = 1000
"""Received files are first moved to numbers from here on, then each to its own number."""


class Become(Exception):
    """Unwinds a fork to where it runs a program."""


def serve(door: str, called: str, loaded: tuple[str, ...]) -> None:
    """Load modules and serve until killed; in a fork, run the program and end. `called` is the name of its Python."""
    for name in loaded:
        __import__(name)
    gc.freeze()
    try:
        Server(door).run()
    except Become as program:
        about, got = program.args
    code: object = 0
    try:
        become(about, got, called)
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    end(code)


class Server:
    """Forks programs, and ends them when their callers are gone."""

    def __init__(self, door: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._callers: dict[int, socket.socket] = {}
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(door)
        self._door.listen(64)
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._door, selectors.EVENT_READ, lambda: self._serve(self._door.accept()[0]))
        self._selector.register(self._woken, selectors.EVENT_READ, lambda: self._woken.recv(512))

    def run(self) -> None:
        """Serve until killed; a fork leaves it by raising Become."""
        while True:
            for key, _ in self._selector.select():
                key.data()
            self._reap()

    def _serve(self, caller: socket.socket) -> None:
        caller.settimeout(10)
        try:
            head, rights, _, _ = caller.recvmsg(HEADER.size, socket.CMSG_SPACE(MOST_FILES * 4))
            about = json.loads(caller.recv(HEADER.unpack(head)[0], socket.MSG_WAITALL))
        except (OSError, ValueError, struct.error):
            caller.close()
            return
        got = array.array("i")
        for _, _, data in rights:
            got.frombytes(data[: len(data) - len(data) % got.itemsize])
        pid = os.fork()
        if pid == 0:
            caller.close()
            self._close()
            raise Become(about, got.tolist())
        for number in got:
            os.close(number)
        self._callers[pid] = caller
        self._selector.register(caller, selectors.EVENT_READ, lambda: self._end(pid))

    def _close(self) -> None:
        """Close what a fork must not inherit."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for descriptor in (self._door, self._woken, self._waker, *self._callers.values()):
            descriptor.close()

    def _end(self, pid: int) -> None:
        """Kill a program whose caller is gone, with everything it started."""
        self._selector.unregister(self._callers[pid])
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while self._callers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._callers.pop(pid) as caller, contextlib.suppress(OSError, KeyError):
                caller.sendall(HEADER.pack(status))
                self._selector.unregister(caller)


def become(about: dict[str, Any], got: list[int], called: str) -> None:
    """Turn this fork into the requested program, and run it."""
    import fcntl
    import runpy

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    aside = [fcntl.fcntl(number, fcntl.F_DUPFD, FIRST_FREE) for number in got]
    for number in got:
        os.close(number)
    for number, wanted in zip(aside, about["files"], strict=True):
        os.dup2(number, wanted, inheritable=True)
        os.close(number)
    sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in range(3))
    os.chdir(about["folder"])
    os.environ.clear()
    os.environ.update(about["environment"])
    flags, (kind, what, *rest) = about["flags"], about["program"]
    sys.dont_write_bytecode = "-B" in flags
    if "-I" not in flags:
        path = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry]
        sys.path[:0] = ["" if kind == "-c" else about["folder"], *path]
    sys.argv[:] = [kind, *rest]
    sys.executable = called
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102


def end(code: object) -> None:
    """End as Python does, but without tearing down torch, which takes ten seconds on an emulated processor."""
    import atexit
    import threading

    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit((code & 0xFF) if isinstance(code, int) else int(code is not None))


def _stream(number: int) -> object:
    """Return standard input, output or error as Python opens them."""
    try:
        os.fstat(number)
    except OSError:
        return None
    line_by_line = number == 2 or os.isatty(number)
    return os.fdopen(number, "w" if number else "r", buffering=1 if line_by_line else -1, closefd=False)
