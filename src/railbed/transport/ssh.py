"""SSH with asyncssh: the user's agent, OpenSSH configuration and known hosts; one connection per machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import asyncssh

from railbed.errors import DeviceError, HostKeyUnknown, LoginRefused, TimedOut, Unreachable
from railbed.model.cluster import Login
from railbed.model.output import Output
from railbed.transport.base import Command, Program, Target, Transport
from railbed.transport.batch import CHUNK, run_batch
from railbed.transport.secret import resolve

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
KEEPALIVE_SECONDS = 5
PROGRAMS = 7
"""At once over one connection. OpenSSH allows ten, and one that was just ended still counts for a moment."""
FAST_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Asked for first where the user has no configuration: asyncssh's own first choice takes far more processor time."""
JUMP = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:@\s]+)(?::(?P<port>\d+))?")


Connect = Callable[[], Awaitable[asyncssh.SSHClientConnection]]


class SshReach:
    """Opens SSH connections; those through the same jump host share one connection to it."""

    def __init__(self) -> None:
        self._jumps: dict[Login, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def __call__(self, target: Target) -> AsyncIterator[Transport]:
        """Reach one machine."""
        tunnel = await self._jump(target.login) if target.login.jump else None
        async with AsyncExitStack() as stack:

            async def connect() -> asyncssh.SSHClientConnection:
                connection = await _connect(target.host, target.login, tunnel)
                stack.push_async_callback(_close, connection)
                return connection

            yield SshTransport(target.name, await connect(), connect)

    async def _jump(self, login: Login) -> asyncssh.SSHClientConnection:
        match = JUMP.fullmatch(login.jump or "")
        if not match:
            raise LoginRefused(f"{login.jump!r} is no jump host", hint="write it as [user@]host[:port]")
        # The password is the machine's own: a jump host is logged in to with keys.
        way = {
            "user": match["user"] or login.user,
            "port": int(match["port"]) if match["port"] else None,
            "password": None,
        }
        through = login.model_copy(update=way)
        if through not in self._jumps:
            self._jumps[through] = asyncio.create_task(self._open_jump(match["host"].strip("[]"), through))
        # Shielded: one node that times out must not take the jump host from the others.
        return await asyncio.shield(self._jumps[through])

    async def _open_jump(self, host: str, login: Login) -> asyncssh.SSHClientConnection:
        connection = await _connect(host, login, None)
        self._stack.push_async_callback(_close, connection)
        return connection


class SshTransport:
    """Runs batches over one SSH connection, and over more where more programs run at once than a server allows."""

    def __init__(self, device: str, first: asyncssh.SSHClientConnection, connect: Connect) -> None:
        self._device = device
        self._running = {first: 0}
        """How many programs run over each connection."""
        self._connect = connect
        self._connecting = asyncio.Lock()

    def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands on the machine."""
        return run_batch(self._device, self.open, commands)

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[Program]:
        """Start a program on the machine."""
        connection = await self._with_room()
        starting = asyncio.create_task(_start(connection, command))
        try:
            # Who is cancelled while it starts does not wait for it: it is ended once it is there.
            yield _SshProgram(await asyncio.shield(starting))
        finally:
            starting.add_done_callback(partial(self._end, connection))

    def _end(
        self, connection: asyncssh.SSHClientConnection, started: asyncio.Task[asyncssh.SSHClientProcess[bytes]]
    ) -> None:
        """End a program's input, and with that the program and all it started."""
        self._running[connection] -= 1
        if not started.cancelled() and started.exception() is None:
            started.result().close()

    async def _with_room(self) -> asyncssh.SSHClientConnection:
        """Return a connection for one more program, which is counted from now on."""
        async with self._connecting:
            found = next((one for one, count in self._running.items() if count < PROGRAMS), None)
            if found is None:
                found = await self._connect()
                self._running[found] = 0
            self._running[found] += 1
            return found


class _SshProgram:
    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._process = process

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    async def read(self, stream: int) -> bytes:
        """Return the next bytes; a connection that breaks ends the stream."""
        try:
            return await (self._process.stdout if stream == 1 else self._process.stderr).read(CHUNK)
        except (asyncssh.Error, OSError):
            return b""


async def _start(connection: asyncssh.SSHClientConnection, command: str) -> asyncssh.SSHClientProcess[bytes]:
    try:
        return await connection.create_process(command, encoding=None)
    except (asyncssh.Error, OSError) as error:
        raise Unreachable(f"no program could be started: {error}") from error


async def _close(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await connection.wait_closed()
    except TimeoutError:
        connection.abort()


class _Client(asyncssh.SSHClient):
    """Remembers a host key that was not accepted, so that it can be told to the user."""

    def __init__(self) -> None:
        self.refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Accept no key that is not known; keep it for the message."""
        self.refused = key
        return False


async def _connect(
    host: str, login: Login, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    client = _Client()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncssh.connect(
                host,
                tunnel=tunnel or (),
                client_factory=lambda: client,
                keepalive_interval=KEEPALIVE_SECONDS,
                login_timeout=CONNECT_SECONDS,
                **_arguments(host, login),
            )
    except TimeoutError as error:
        raise TimedOut(f"no answer from {host} within {CONNECT_SECONDS:g} s", hint=_look_at(host)) from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise _host_key_error(host, login, client.refused) from error
    except asyncssh.PermissionDenied as error:
        raise LoginRefused(f"{host} refused the login: {error.reason}", hint=_try_by_hand(host, login)) from error
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, asyncssh.ConfigParseError) as error:
        raise LoginRefused(f"the key or configuration for {host} cannot be used: {error}") from error
    except OSError as error:
        raise _os_error(host, login, error) from error
    except (ValueError, OverflowError, RuntimeError) as error:
        raise LoginRefused(f"the login to {host} cannot be used: {error}", hint=_try_by_hand(host, login)) from error
    except asyncssh.Error as error:
        raise Unreachable(f"{host} broke off the connection: {error.reason}", hint=_look_at(host)) from error


def _arguments(host: str, login: Login) -> dict[str, Any]:
    """Return what the cluster file gives; the rest comes from the user's OpenSSH configuration."""
    wanted: dict[str, Any] = {
        "username": login.user,
        "port": login.port,
        "client_keys": _client_keys(login),
        "known_hosts": str(Path(login.known_hosts).expanduser()) if login.known_hosts else None,
        "password": resolve(login.password),
        "passphrase": resolve(login.passphrase),
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    if not Path("~/.ssh/config").expanduser().exists():
        return {"encryption_algs": FAST_CIPHERS, **given}
    # `UserKnownHostsFile none` would let asyncssh accept any key; here the user's own file counts then.
    if asyncssh.SSHClientConnectionOptions(host=host, config=(), **given).known_hosts is None:
        given["known_hosts"] = b""
    return given


def _client_keys(login: Login) -> list[str] | None:
    """Return the key of the cluster file; one that needs a passphrase we do not have is left to the agent."""
    if not login.key:
        return None
    path = str(Path(login.key).expanduser())
    if login.passphrase is None and "SSH_AUTH_SOCK" in os.environ:
        try:
            asyncssh.read_private_key(path)
        except asyncssh.KeyImportError:
            return None
    return [path]


def _host_key_error(host: str, login: Login, key: asyncssh.SSHKey | None) -> DeviceError:
    where = login.known_hosts or "~/.ssh/known_hosts"
    shown = f"{key.get_algorithm()} {key.get_fingerprint()}" if key else "a certificate"
    return HostKeyUnknown(
        f"the host key of {host} is not in {where}: it shows {shown}",
        hint=f"on that machine, compare with `ssh-keygen -lf` of its /etc/ssh/ssh_host_*_key.pub; if they are equal, "
        f"{_try_by_hand(host, login)} once and accept it. If it was known before, the machine was reinstalled or is "
        f"another one: `ssh-keygen -R {host}` forgets the old key",
    )


def _os_error(host: str, login: Login, error: OSError) -> DeviceError:
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError) and error.filename:
        return LoginRefused(
            f"{error.filename} cannot be read: {error.strerror}", hint="correct `login:` in the cluster file"
        )
    port = f" port {login.port}" if login.port else ""
    return Unreachable(f"{host}{port} cannot be reached: {_reason(error)}", hint=_look_at(host))


def _reason(error: OSError) -> str:
    """Return the system's words; asyncio wraps them in its own where it tried several addresses."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def _try_by_hand(host: str, login: Login) -> str:
    port = f" -p {login.port}" if login.port else ""
    jump = f" -J {login.jump}" if login.jump else ""
    user = f"{login.user}@" if login.user else ""
    return f"run `ssh{port}{jump} {user}{host}`"


def _look_at(host: str) -> str:
    return f"is it on, is {host} its address, does its SSH server run?"
