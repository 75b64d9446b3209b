"""The SSH server: logins, interactive shells, and single commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh

from switchlab.common.logins import Logins
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.session import Session
from switchlab.nexus.show.device import LEGAL
from switchlab.nexus.terminal import Disconnected, Keyboard, Terminal

IDLE_SECONDS = 600.0
LOGIN_SECONDS = 30.0


class NexusServer(asyncssh.SSHServer):
    """The login part of one connection."""

    def __init__(self, switch: Switch, logins: Logins, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._switch = switch
        self._logins = logins
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._connections.add(conn)
        if not self._switch.is_reachable:
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh calls it with this name
        if self._connection is not None:
            self._connections.discard(self._connection)

    def password_auth_supported(self) -> bool:
        return bool(self._logins.passwords)

    def validate_password(self, username: str, password: str) -> bool:
        return self._logins.check(username, password)


class SshService:
    """A running SSH server; `close` ends it and every connection."""

    def __init__(self, switch: Switch, logins: Logins, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._switch = switch
        self._logins = logins
        self._idle_seconds = idle_seconds
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self, host: str, port: int, host_key: Path) -> int:
        """Listen and return the port."""
        keys = self._logins.authorized_keys
        self._acceptor = await asyncssh.create_server(
            lambda: NexusServer(self._switch, self._logins, self._connections),
            host,
            port,
            server_host_keys=[str(host_key)],
            authorized_client_keys=str(keys) if keys else None,
            process_factory=self._serve,
            encoding="utf-8",
            errors="replace",
            line_editor=False,
            login_timeout=LOGIN_SECONDS,
            server_version="Cisco-1.25",
        )
        self._switch.connection_droppers.append(self._drop_connections)
        return int(self._acceptor.get_port())

    async def close(self) -> None:
        if self._acceptor is None:
            return
        self._switch.connection_droppers.remove(self._drop_connections)
        self._drop_connections()
        self._acceptor.close()
        await self._acceptor.wait_closed()

    def _drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, process: asyncssh.SSHServerProcess[str]) -> None:
        try:
            user = str(process.get_extra_info("username") or "admin")
            session = Session(self._switch, user=user)
            if process.command is not None:
                await self._run_command(process, session, process.command)
            else:
                await self._run_shell(process, session)
            process.exit(0)
        except (asyncssh.Error, ConnectionError, TimeoutError, Disconnected):
            process.close()

    async def _read(self, process: asyncssh.SSHServerProcess[str]) -> str:
        while True:
            try:
                return await asyncio.wait_for(process.stdin.read(4096), self._idle_seconds)
            except (asyncssh.TerminalSizeChanged, asyncssh.BreakReceived, asyncssh.SignalReceived):
                continue
            except TimeoutError as error:
                raise Disconnected from error

    async def _run_command(self, process: asyncssh.SSHServerProcess[str], session: Session, line: str) -> None:
        """Run what an exec request asks for; the exit status is always 0, so errors show only in the text."""
        keys = Keyboard(lambda: self._read(process))
        faults = self._switch.faults
        for command in session.commands(line):
            if (event := faults.find_hold(command)) and not await faults.wait(command, event, process.wait_closed()):
                raise Disconnected
            reply = session.execute(command)
            if reply.question is not None:
                process.stdout.write(reply.text)
                reply = session.answer(reply.question, await _read_answer(keys))
            if session.context.closing:
                return
            process.stdout.write(reply.text)
            await asyncio.wait_for(process.stdout.drain(), self._idle_seconds)

    async def _run_shell(self, process: asyncssh.SSHServerProcess[str], session: Session) -> None:
        has_terminal = process.term_type is not None
        if has_terminal:
            session.context.terminal_length = process.term_size[1] or 24
        newline = "\r\n" if has_terminal else "\n"

        def write(text: str) -> None:
            process.stdout.write(text.replace("\n", newline))

        write(f"\n{LEGAL}\n")
        await Terminal(session, Keyboard(lambda: self._read(process)), write, echo=has_terminal).run()


async def _read_answer(keys: Keyboard) -> str:
    answer = ""
    try:
        while (key := await keys.next()) != "\r" and len(answer) < 16:
            answer += key
    except Disconnected:
        return answer
    return answer
