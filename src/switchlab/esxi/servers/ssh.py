"""The SSH server: keyboard-interactive logins of root, its keys, interactive shells, and single commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh
from asyncssh.auth import KbdIntChallenge, KbdIntResponse

from switchlab.common.logins import Logins
from switchlab.esxi.model.host import Host
from switchlab.esxi.shell.shell import Left, Shell

IDLE_SECONDS = 900.0
LOGIN_SECONDS = 30.0
ROOT = "root"
PROMPT = "Password: "
GREETING = (
    "The time and date of this login have been sent to the system logs.\n\n"
    "The ESXi Shell can be disabled by an administrative user. See the\n"
    "vSphere Security documentation for more information.\n"
)


class EsxiServer(asyncssh.SSHServer):
    """The login part of one connection: the method `password` is not offered."""

    def __init__(self, host: Host, logins: Logins, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._host = host
        self._logins = logins
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)
        if not self._host.is_reachable:
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh calls it with this name
        if self._connection is not None:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        if not self._accepts(username) and self._connection is not None:
            self._connection.set_authorized_keys(asyncssh.import_authorized_keys(""))
        return True

    def password_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return bool(self._logins.passwords)

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> KbdIntChallenge:  # noqa: ARG002
        return "", "", "", [(PROMPT, False)]

    def validate_kbdint_response(self, username: str, responses: KbdIntResponse) -> KbdIntChallenge:
        accepted = self._accepts(username) and len(responses) == 1
        return accepted and self._logins.check(username, responses[0])

    def _accepts(self, user: str) -> bool:
        """Whether somebody may log in now: nobody but root ever, and nobody in lockdown mode."""
        return user == ROOT and self._host.accepts_logins


class EsxiSsh:
    """A running SSH server; `close` ends it and every connection."""

    def __init__(self, host: Host, logins: Logins, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._host = host
        self._logins = logins
        self._idle_seconds = idle_seconds
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self, address: str, port: int, host_key: Path) -> int:
        """Listen and return the port."""
        keys = self._logins.authorized_keys
        self._acceptor = await asyncssh.create_server(
            lambda: EsxiServer(self._host, self._logins, self._connections),
            address,
            port,
            server_host_keys=[str(host_key)],
            authorized_client_keys=str(keys) if keys else None,
            process_factory=self._serve,
            encoding="utf-8",
            errors="replace",
            line_editor=True,
            login_timeout=LOGIN_SECONDS,
            server_version="OpenSSH_8.8",
        )
        self._host.connection_droppers.append(self._drop_connections)
        return int(self._acceptor.get_port())

    async def close(self) -> None:
        if self._acceptor is None:
            return
        self._host.connection_droppers.remove(self._drop_connections)
        self._drop_connections()
        self._acceptor.close()
        await self._acceptor.wait_closed()

    def _drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, process: asyncssh.SSHServerProcess[str]) -> None:
        shell = Shell(
            self._host, process.stdout.write, process.stderr.write, ready=lambda line: self._ready(process, line)
        )
        try:
            if process.command is not None:
                await shell.run(process.command)
                await asyncio.wait_for(process.stdout.drain(), self._idle_seconds)
            else:
                await self._interact(process, shell)
            process.exit(shell.status)
        except Left:
            process.exit(shell.status)
        except (asyncssh.Error, ConnectionError, TimeoutError):
            process.close()

    async def _ready(self, process: asyncssh.SSHServerProcess[str], line: str) -> bool:
        """Wait while a command is held; a connection that closes meanwhile never runs it."""
        faults = self._host.faults
        event = faults.find_hold(line)
        return event is None or await faults.wait(line, event, process.wait_closed())

    async def _interact(self, process: asyncssh.SSHServerProcess[str], shell: Shell) -> None:
        """Serve lines until the client leaves."""
        has_terminal = process.term_type is not None
        if has_terminal:
            process.stdout.write(GREETING)
        while True:
            if has_terminal:
                process.stdout.write(shell.prompt)
            try:
                line = await asyncio.wait_for(process.stdin.readline(), self._idle_seconds)
            except (asyncssh.TerminalSizeChanged, asyncssh.BreakReceived, asyncssh.SignalReceived):
                continue
            if not line:
                return
            await shell.run(line)
