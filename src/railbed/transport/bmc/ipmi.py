"""A BMC over IPMI 2.0: each command is one ipmitool on this machine.

The password reaches ipmitool through a pipe that only this process and ipmitool have open: it is neither an argument
nor in the environment, which `ps` and `/proc` show, nor in a file. Reading asks for the privilege USER, a power action
for OPERATOR: ipmitool's own default is ADMINISTRATOR.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from railbed.errors import DeviceError, LoginRefused, ToolMissing, Unreachable
from railbed.model.reading import MAX_OUTPUT_BYTES, Output
from railbed.transport.base import Command, Program, Target, Transport
from railbed.transport.batch import CHUNK, PrintsTooMuch, cut_off, unfinished_output
from railbed.transport.bmc.actions import POWER_ACTIONS, login_of, no_programs, refused_login, require_changing
from railbed.transport.local import ENDING_SECONDS, drained_in, signal_group, wait_despite_cancellation

TOOL = "ipmitool"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READING = ("chassis status", "sdr elist", "sel elist last 200")
MAX_USER, MAX_PASSWORD = 16, 20
"""The protocol has no room for more; ipmitool would cut a password off without a word."""
NO_SESSION = b"Unable to establish"
REASON_SECONDS = 8.0
WRONG_LOGIN = re.compile(
    rb"RAKP 2 HMAC is invalid|RAKP 4[^\n]{0,80}invalid|unauthorized (?:name|role)|(?:invalid|illegal) role",
    re.IGNORECASE,
)
WRONG_CIPHER = re.compile(
    rb"invalid (?:authentication|integrity|confidentiality) algorithm|no matching cipher suite", re.IGNORECASE
)
NOISE = re.compile(rb"Get HPM\.x|Unable to Get Channel Cipher Suites|Error sending request|^$", re.IGNORECASE)
"""Lines about what ipmitool tried beside the command."""


@asynccontextmanager
async def connect_ipmi(target: Target) -> AsyncIterator[Transport]:
    """Prepare the login; every command opens a session of its own."""
    bmc = target.bmc
    assert bmc is not None
    tool = shutil.which(TOOL, path=f"{os.environ.get('PATH', '')}:{PATH}")
    if tool is None:
        raise ToolMissing(
            "ipmitool is not installed on this machine, which reads BMCs over IPMI",
            hint="install the package ipmitool here, or use Redfish: `access: redfish` under `bmc:`",
        )
    if bmc.jump:
        raise Unreachable(
            "IPMI cannot go through a jump host",
            hint="use Redfish (`access: redfish` under `bmc:`), or run railbed on a machine in the BMC's network",
        )
    user, password = login_of(bmc)
    if len(user.encode()) > MAX_USER or len(password.encode()) > MAX_PASSWORD or "\n" in password:
        raise LoginRefused(
            f"IPMI has no room for this login: at most {MAX_USER} bytes for the user, {MAX_PASSWORD} for the password",
            hint="use Redfish, or a shorter password for an account of railbed's own",
        )
    suite = ("-C", str(bmc.cipher_suite)) if bmc.cipher_suite else ()
    words = (tool, "-I", "lanplus", "-H", bmc.host, "-p", str(bmc.open_port), "-U", user, *suite, "-N", "2", "-R", "2")
    yield IpmiTransport(target, words, password)


class IpmiTransport:
    """Runs one ipmitool after another: a BMC has only few sessions."""

    def __init__(self, target: Target, words: Sequence[str], password: str) -> None:
        self._target = target
        self._words = words
        self._password = password

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands, each of which is the words of ipmitool's own command."""
        for command in commands:
            yield await self._run(command)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Refuse: our programs do not run on a BMC."""
        raise no_programs(self._target.name, command)

    async def _run(self, command: Command) -> Output:
        changes = command.script in POWER_ACTIONS
        if changes:
            require_changing(self._target, command.script)
        elif command.script not in READING:
            raise DeviceError(f"{self._target.name} is a BMC, which is not asked for `{command.script}`")
        sent = time.time()
        stdout, stderr = bytearray(), bytearray()
        words = command.script.replace("power", "chassis power", 1) if changes else command.script
        try:
            async with asyncio.timeout(command.timeout):
                code = await self._call(["-L", "OPERATOR" if changes else "USER", *words.split()], stdout, stderr)
                if code and NO_SESSION in stderr:
                    raise await self._explain()
        except TimeoutError:
            return unfinished_output(self._target.name, command, bytes(stdout), sent)
        except PrintsTooMuch:
            return cut_off(self._target.name, command, bytes(stdout), bytes(stderr), sent)
        return Output(
            device=self._target.name,
            key=command.key,
            command=command.script,
            stdout=bytes(stdout),
            stderr=_complaint(bytes(stderr)),
            exit=code,
            sent=sent,
            received=time.time(),
        )

    async def _call(self, words: Sequence[str], stdout: bytearray, stderr: bytearray) -> int | None:
        """Run ipmitool to its end; whatever happens, it does not outlive this call."""
        process = await self._start(words)
        try:
            await _read_both(process, stdout, stderr)
            return await process.wait()
        finally:
            await wait_despite_cancellation(asyncio.create_task(_end(process)))

    async def _start(self, words: Sequence[str]) -> Process:
        """Start ipmitool with the password in a pipe; it reads one line."""
        reading, writing = os.pipe()
        try:
            os.write(writing, f"{self._password}\n".encode())
            os.close(writing)
            return await asyncio.create_subprocess_exec(
                *(*self._words, "-f", f"/dev/fd/{reading}", *words),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env={"PATH": PATH, "LC_ALL": "C", "TZ": "UTC"},
                pass_fds=(reading,),
                start_new_session=True,
            )
        except OSError as error:
            raise ToolMissing(f"ipmitool cannot be started on this machine: {error.strerror}") from error
        finally:
            os.close(reading)

    async def _explain(self) -> DeviceError:
        """Try once more, since ipmitool gives the reason for a refused session only with -v, and return that reason."""
        bmc = self._target.bmc
        assert bmc is not None
        place = f"{bmc.host} port {bmc.open_port}"
        reason = bytearray()
        with contextlib.suppress(TimeoutError, PrintsTooMuch):
            async with asyncio.timeout(REASON_SECONDS):
                await self._call(["-v", "-L", "USER", "chassis", "status"], bytearray(), reason)
        if match := WRONG_LOGIN.search(reason):
            return refused_login(place, bmc, match[0].decode("ascii", "replace"))
        if WRONG_CIPHER.search(reason):
            return Unreachable(
                f"{place} does not accept the cipher suite of the session",
                hint="set `cipher_suite: 3` (or 17) under `bmc:`; no weaker one is used",
            )
        return Unreachable(
            f"no IPMI session with {place}",
            hint=f"is {bmc.host} the address of the BMC, is IPMI over LAN enabled there, does a firewall drop UDP port "
            f"{bmc.open_port}? Some BMCs need `cipher_suite: 3` or 17 under `bmc:`",
        )


def _complaint(stderr: bytes) -> bytes:
    """Return what ipmitool complained about, without what it tried beside the command."""
    return b"\n".join(line for line in stderr.splitlines() if not NOISE.search(line))


async def _read_both(process: Process, stdout: bytearray, stderr: bytearray) -> None:
    """Read both streams at once, up to a limit."""
    try:
        async with asyncio.TaskGroup() as group:
            for stream, into in ((process.stdout, stdout), (process.stderr, stderr)):
                assert stream is not None
                group.create_task(_read(stream, into))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _read(stream: asyncio.StreamReader, into: bytearray) -> None:
    while chunk := await stream.read(CHUNK):
        into += chunk
        if len(into) > MAX_OUTPUT_BYTES:
            raise PrintsTooMuch


async def _end(process: Process) -> None:
    if process.returncode is None:
        signal_group(process, signal.SIGKILL)
    await drained_in(process, ENDING_SECONDS)
