"""SSH with asyncssh: the user's agent, OpenSSH configuration and known hosts; one connection per machine."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Self

import asyncssh

from railbed.errors import DeviceError, HostKeyUnknown, LoginRefused, ProgramRefused, Unreachable
from railbed.model.cluster import Login
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.reading import Output
from railbed.model.text import expand_home
from railbed.transport.base import Command, Program, Target, Transport
from railbed.transport.batch import CHUNK, run_batch
from railbed.transport.secret import resolve
from railbed.transport.ssh.contact import (
    PLAIN_KEYS,
    TRUST_NONE,
    HostKey,
    PublicKey,
    key_path,
    public_half,
    public_keys,
    shown_key,
)
from railbed.transport.ssh.errors import Client, LoginAttempt, explain
from railbed.transport.ssh.login import (
    AGENT_SECONDS,
    SshAgent,
    agent_path,
    has_configuration,
    key_files,
    query_agent,
)
from railbed.transport.ssh.switch import SshCliTransport

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
KEEPALIVE_SECONDS, KEEPALIVES = 15, 4
"""How often a machine is asked for a sign of life, and how many may be missing before the connection counts as lost.
The answer queues behind two megabytes that SSH sends ahead, on a slow link or a busy processor for most of a minute."""
PROGRAMS = 7
"""Concurrent programs per connection. OpenSSH allows ten, and a program that just ended still counts for a moment."""
FAST_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Preferred if the user has no configuration: asyncssh's first choice takes far more processor time."""
JUMP = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:@\s]+)(?::(?P<port>\d+))?")


Connect = Callable[[], Awaitable[asyncssh.SSHClientConnection]]


class SshConnector:
    """Opens SSH connections; those through the same jump host share one connection to it."""

    def __init__(self, timeout: float = DEVICE_SECONDS) -> None:
        self._connect = partial(_connect, seconds=CONNECT_SECONDS * max(1.0, timeout / DEVICE_SECONDS))
        self._jumps: dict[Login, asyncio.Task[asyncssh.SSHClientConnection]] = {}
        self._agents: dict[str, asyncio.Task[SshAgent]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def to_command_line(self, target: Target) -> AsyncIterator[Transport]:
        """Connect to a switch, which has its own command line instead of a shell."""
        tunnel = await self._jump(target.login) if target.login.jump else None
        agent = await self._agent(target.host, target.login)
        connection = await self._connect(target.host, target.login, tunnel, agent)
        try:
            yield SshCliTransport(target.name, connection)
        finally:
            await _close(connection)

    @asynccontextmanager
    async def forward(self, login: Login, host: str, port: int) -> AsyncIterator[str]:
        """Yield a Unix socket, only for us, that leads to a port of a host behind the jump host."""
        jump = await self._jump(login)
        with TemporaryDirectory(prefix="railbed-") as folder:
            path = f"{folder}/forward"
            try:
                listener = await jump.forward_local_path_to_port(path, host, port)
            except OSError as error:
                raise Unreachable(f"no way through the jump host could be opened: {error}") from error
            try:
                yield path
            finally:
                listener.close()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await listener.wait_closed()

    @asynccontextmanager
    async def to_shell(self, target: Target, *, sudo_password: str | None = None) -> AsyncIterator[Transport]:
        """Connect to a machine with a POSIX shell; the password for sudo is that of the login, or another one."""
        tunnel = await self._jump(target.login) if target.login.jump else None
        async with AsyncExitStack() as stack:

            async def connect() -> asyncssh.SSHClientConnection:
                agent = await self._agent(target.host, target.login)
                connection = await self._connect(target.host, target.login, tunnel, agent)
                stack.push_async_callback(_close, connection)
                return connection

            sudo = resolve(target.login.sudo) if sudo_password is None else sudo_password
            yield SshTransport(target.name, await connect(), connect, sudo or "")

    async def log_in(self, target: Target) -> None:
        """Log in with keys and end the connection; a key that is named must do, without those of the agent."""
        login = target.login.model_copy(update={"password": None})
        tunnel = await self._jump(login) if login.jump else None
        agent = await self._agent(target.host, login)
        further: dict[str, Any] = {"agent_path": None} if login.key and key_files(login, agent) else {}
        await _close(await self._connect(target.host, login, tunnel, agent, further=further))

    @asynccontextmanager
    async def by_password(self, target: Target, password: str | None) -> AsyncIterator[Transport]:
        """Connect to a machine with a password and nothing else: servers count the keys that they refuse."""
        jump = await self._jump(target.login) if target.login.jump else None
        client = Client()
        client.password = password
        login = _without_credentials(target.login)
        only: dict[str, Any] = {"client_keys": None, "agent_path": None, "password": client.give_password}
        connection = await self._connect(target.host, login, jump, None, client=client, by_password=True, further=only)
        try:
            yield SshTransport(target.name, connection, _refuse_more, "")
        finally:
            await _close(connection)

    async def host_key(self, target: Target) -> HostKey:
        """Return the host key that a machine shows, without a login: the connection ends before there is one."""
        tunnel = await self._jump(target.login) if target.login.jump else None
        client = Client()
        login = _without_credentials(target.login)
        trusted: dict[str, Any] = {"known_hosts": TRUST_NONE, "server_host_key_algs": PLAIN_KEYS, "client_keys": None}
        with contextlib.suppress(HostKeyUnknown):
            connection = await self._connect(target.host, login, tunnel, None, client=client, further=trusted)
            await _close(connection)
        if client.refused is None:
            raise HostKeyUnknown(f"{target.host} shows no host key", hint=f"try `ssh {target.host}`")
        return shown_key(target.name, target.host, login, client)

    async def keys(self, target: Target) -> list[PublicKey]:
        """Return the keys that a login offers a machine, those in files first."""
        login, agent = target.login, await self._agent(target.host, target.login)
        files = key_files(login, agent)
        if login.key and files is None:
            return [public_half(key_path(login))]
        arguments = _arguments(target.host, login, agent)
        attempt = LoginAttempt(host=target.host, login=login, seconds=CONNECT_SECONDS, arguments=arguments)
        offered = [*(attempt.options().client_keys or ())]
        if agent and agent.keys and not login.key:
            async with asyncio.timeout(AGENT_SECONDS), await asyncssh.connect_agent(agent.path) as client:
                offered += await client.get_keys()
        unique: dict[str, PublicKey] = {}
        for key in public_keys(offered):
            unique.setdefault(key.public, key)
        return list(unique.values())

    async def _jump(self, login: Login) -> asyncssh.SSHClientConnection:
        match = JUMP.fullmatch(login.jump or "")
        if not match:
            raise LoginRefused(f"{login.jump!r} is not a jump host", hint="write it as [user@]host[:port]")
        # The password belongs to the machine; the login to a jump host uses keys.
        changes = {
            "user": match["user"] or login.user,
            "port": int(match["port"]) if match["port"] else None,
            "password": None,
        }
        through = login.model_copy(update=changes)
        if through not in self._jumps:
            self._jumps[through] = asyncio.create_task(self._open_jump(match["host"].strip("[]"), through))
        # Shielded: a device that times out must not cancel the login to the jump host for the others.
        return await asyncio.shield(self._jumps[through])

    async def _open_jump(self, host: str, login: Login) -> asyncssh.SSHClientConnection:
        try:
            connection = await self._connect(host, login, None, await self._agent(host, login))
        except DeviceError as error:
            raise type(error)(f"jump host: {error.message}", hint=error.hint) from error
        self._stack.push_async_callback(_close, connection)
        return connection

    async def _agent(self, host: str, login: Login) -> SshAgent | None:
        """Return the agent, queried once for all machines; None if there is none."""
        path = agent_path(host, login)
        if not path:
            return None
        if path not in self._agents:
            self._agents[path] = asyncio.create_task(query_agent(path))
        return await asyncio.shield(self._agents[path])


class SshTransport:
    """Runs batches over one SSH connection, and over more if more programs run at once than a server allows."""

    def __init__(self, device: str, first: asyncssh.SSHClientConnection, connect: Connect, sudo_password: str) -> None:
        self._device = device
        self._sudo_password = sudo_password
        self._running = {first: 0}
        """How many programs run over each connection."""
        self._connect = connect
        self._connecting = asyncio.Lock()

    def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands on the machine."""
        return run_batch(self._device, self.open, commands, sudo_password=self._sudo_password)

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[Program]:
        """Start a program on the machine."""
        connection = await self._with_room()
        starting = asyncio.create_task(_start(connection, command))
        try:
            # If cancelled during the start, do not wait: the program is ended once it has started.
            yield _SshProgram(await asyncio.shield(starting))
        finally:
            starting.add_done_callback(partial(self._end, connection))

    def _end(
        self, connection: asyncssh.SSHClientConnection, started: asyncio.Task[asyncssh.SSHClientProcess[bytes]]
    ) -> None:
        """Close a program's input, which ends the program and all it started."""
        self._running[connection] -= 1
        if not started.cancelled() and started.exception() is None:
            started.result().close()

    async def _with_room(self) -> asyncssh.SSHClientConnection:
        """Return a connection with room for one more program, and count that program."""
        async with self._connecting:
            free = (connection for connection, count in self._running.items() if count < PROGRAMS)
            connection = next(free, None)
            if connection is None:
                connection = await self._connect()
                self._running[connection] = 0
            self._running[connection] += 1
            return connection


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
    except (asyncssh.Error, OSError, AttributeError) as error:
        # asyncssh forgets the session of a connection that breaks just after the program was started, and then uses it.
        broken = connection.is_closed() or isinstance(error, AttributeError)
        kind = Unreachable if broken else ProgramRefused
        raise kind(f"no program could be started: {error}") from error


async def _close(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await connection.wait_closed()
    except TimeoutError:
        connection.abort()


def _without_credentials(login: Login) -> Login:
    return login.model_copy(update={"key": None, "password": None, "passphrase": None, "sudo": None})


async def _refuse_more() -> asyncssh.SSHClientConnection:
    raise ProgramRefused("only one program at a time runs over a connection that needed a password")


async def _connect(
    host: str,
    login: Login,
    tunnel: asyncssh.SSHClientConnection | None,
    agent: SshAgent | None,
    *,
    seconds: float,
    client: Client | None = None,
    by_password: bool = False,
    further: Mapping[str, Any] | None = None,
) -> asyncssh.SSHClientConnection:
    """Log in; `further` arguments replace those of the cluster file."""
    arguments: dict[str, Any] = {}
    attempt = LoginAttempt(
        host=host,
        login=login,
        seconds=seconds,
        agent=agent,
        by_password=by_password,
        arguments=arguments,
        client=client or Client(),
    )
    try:
        arguments |= _arguments(host, login, agent) | dict(further or {})
        async with asyncio.timeout(seconds):
            return await asyncssh.connect(
                host,
                tunnel=tunnel or (),
                client_factory=lambda: attempt.client,
                keepalive_interval=KEEPALIVE_SECONDS,
                keepalive_count_max=KEEPALIVES,
                login_timeout=seconds,
                **arguments,
            )
    except DeviceError:
        raise
    except (asyncssh.Error, OSError, ValueError, OverflowError, RuntimeError) as error:
        raise explain(error, attempt) from error


def _arguments(host: str, login: Login, agent: SshAgent | None) -> dict[str, Any]:
    """Return the arguments that the cluster file sets; the rest comes from the user's OpenSSH configuration."""
    wanted: dict[str, Any] = {
        "username": login.user,
        "port": login.port,
        "client_keys": key_files(login, agent),
        "known_hosts": str(expand_home(login.known_hosts)) if login.known_hosts else None,
        "password": resolve(login.password),
        "passphrase": resolve(login.passphrase),
    }
    arguments = {key: value for key, value in wanted.items() if value is not None}
    if agent and agent.problem:
        arguments["agent_path"] = None
    if not has_configuration():
        return {"encryption_algs": FAST_CIPHERS, **arguments}
    # With `UserKnownHostsFile none` asyncssh would accept any key; use the user's own file then.
    if asyncssh.SSHClientConnectionOptions(host=host, config=(), **arguments).known_hosts is None:
        arguments["known_hosts"] = b""
    return arguments
