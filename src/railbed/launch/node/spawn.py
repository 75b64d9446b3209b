"""The processes of ranks: forked by the fork server, or started from scratch without one."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from railbed.launch.messages import SAFE_PATH
from railbed.launch.node.forkserver import PR_SET_PDEATHSIG, REQUEST_BYTES, fill_in

LIBC = ctypes.CDLL(None)
KILLED = -int(signal.SIGKILL)
FORK_SECONDS = 10.0
END_SECONDS = 5.0
HALTED = ("T", "t")
"""States of a process that was stopped by a signal or by a debugger."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Otherwise numpy, which torch loads, starts threads: ranks do not need them, and they do not survive a fork."""


class Child:
    """One process, the first of its group."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pid: asyncio.Future[int] = loop.create_future()
        self.code: asyncio.Future[int] = loop.create_future()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to the processes that it started."""
        if self.pid.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid.result(), number)

    def is_halted(self) -> bool:
        """Whether it is stopped, as by SIGSTOP."""
        if not self.pid.done() or self.code.done():
            return False
        try:
            status = Path(f"/proc/{self.pid.result()}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return status.rpartition(") ")[2].startswith(HALTED)

    def note(self, message: Mapping[str, Any]) -> None:
        """Note its process number or its exit code."""
        for name, future in (("pid", self.pid), ("code", self.code)):
            if name in message and not future.done():
                future.set_result(int(message[name]))


class Spawner:
    """Starts ranks on this node."""

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._folder = folder
        self._modules = modules
        self._socket: socket.socket | None = None
        self._forkserver: Process | None = None
        self._ready = asyncio.Event()
        self._children: dict[int, Child] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start the fork server, if there is anything to load."""
        if not self._modules:
            self._ready.set()
            return
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        command = [sys.executable, "-m", "railbed.launch.node.forkserver", str(theirs.fileno()), *self._modules]
        with theirs, (self._folder / "forkserver.log").open("ab") as log:
            self._forkserver = await asyncio.create_subprocess_exec(
                *command,
                cwd=self._folder,
                env={**os.environ, **ONE_THREAD, **SAFE_PATH},
                stdin=DEVNULL,
                stdout=log,
                stderr=STDOUT,
                pass_fds=(theirs.fileno(),),
                preexec_fn=end_with_parent,
            )
        self._run_task(self._read(self._socket))

    async def ready(self) -> None:
        """Wait until ranks can start at once, or until it is clear that they have to load everything themselves."""
        await self._ready.wait()

    async def close(self) -> None:
        """End the fork server, and with it any remaining ranks."""
        if self._forkserver:
            with contextlib.suppress(ProcessLookupError, asyncio.TimeoutError):
                self._forkserver.kill()
                await asyncio.wait_for(self._forkserver.wait(), END_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket:
            self._socket.close()

    async def start(
        self, name: str, command: Sequence[str], env: Mapping[str, str], output: int, **inherited: int
    ) -> Child:
        """Start a process; raise OSError if it cannot be started.

        It inherits file descriptors by name: `{messages}` in the command stands for the one of that name.
        """
        await self.ready()
        child = Child()
        if self._socket and command[1:2] == ["-m"]:
            arguments, names = command[3:], list(inherited)
            request = {"name": name, "module": command[2], "arguments": arguments, "env": dict(env), "inherits": names}
            await self._fork(child, self._socket, request, [output, *inherited.values()])
        else:
            await self._exec(child, command, env, output, inherited)
        return child

    async def _fork(
        self, child: Child, server: socket.socket, request: Mapping[str, object], descriptors: Sequence[int]
    ) -> None:
        number = next(self._numbers)
        self._children[number] = child
        socket.send_fds(server, [json.dumps({**request, "id": number}).encode()], list(descriptors))
        await asyncio.wait([child.pid, child.code], timeout=FORK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not (child.pid.done() or child.code.done()):
            raise OSError(f"the fork server did not fork within {FORK_SECONDS:g} s")

    async def _exec(
        self, child: Child, command: Sequence[str], env: Mapping[str, str], output: int, inherited: Mapping[str, int]
    ) -> None:
        process = await asyncio.create_subprocess_exec(
            *fill_in(command, inherited),
            cwd=self._folder,
            env={**os.environ, **env},
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
            pass_fds=tuple(inherited.values()),
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        child.note({"pid": process.pid})
        self._run_task(_await_end(process, child))

    async def _read(self, server: socket.socket) -> None:
        """Read the fork server's answers. When it ends, so do its ranks; later ranks start without it."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while answer := await loop.sock_recv(server, REQUEST_BYTES):
                message = json.loads(answer)
                if "ready" in message:
                    self._ready.set()
                else:
                    self._children[message["id"]].note(message)
        self._socket = None
        server.close()
        for child in self._children.values():
            child.note({"code": KILLED})
        self._ready.set()

    def _run_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _await_end(process: Process, child: Child) -> None:
    child.note({"code": await process.wait()})


def end_with_parent() -> None:
    """Let the kernel kill this process when the one that started it dies."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
