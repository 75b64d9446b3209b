"""Many commands in one round trip: one shell reads a script and frames each command's output with markers.

SSH and local use the same script. Standard output and standard error are framed separately. A command that does not end
in time, or never stops printing, ends with its shell and all processes started there, and the rest of the batch runs
in a new shell. So even a process in uninterruptible sleep, which nothing can end, does not delay the others.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field

from railbed.errors import TimedOut, Unreachable
from railbed.model.reading import LATE, MAX_OUTPUT_BYTES, Output
from railbed.transport.base import Command, Program

GREETING_SECONDS = 50.0
"""How long a login shell may take to start. Keep-alives detect a dead connection, and the time-out of the device mostly
comes first: start-up files that wait for a lock are slow, not broken."""
CHUNK = 64 * 1024
EVIDENCE_BYTES = 64 * 1024
"""How much of an output that is too long is stored: enough to recognise it."""

LONGEST_GREETING = 64 * 1024
"""A longer greeting is what takes the time, rather than start-up files that are silent."""
FLOOD = "the login printed without an end"

PROLOGUE = r"""begin="the script begins"
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"; LC_ALL=C; export PATH LC_ALL
watch='exec 3<&0 </dev/null
(trap "" TERM; cat <&3; kill -s TERM 0; sleep 1; kill -s KILL 0) >/dev/null 2>&1 & watcher=$!'
skip="until [ \"\$line\" = '$begin' ]; do read -r line || exit 1; done"
watched="$skip; script=\$(head -c \$1); $watch; (eval \"\$script\") 3<&-; code=\$?; kill -s KILL \$watcher; exit \$code"
as_root() {
  if [ "$(id -u)" = 0 ]; then eval "$2"
  elif ! command -v sudo >/dev/null 2>&1; then echo 'sudo: not installed' >&2; exit 1
  elif [ -z "$sudo_password" ]; then through_sudo "$1" "$begin$newline$2" -n
  else
    printf '%s\n' "$sudo_password" | sudo -S -p '' -v || exit 1
    through_sudo "$1" "$sudo_password$newline$begin$newline$2" -S -p ''
  fi
}
through_sudo() {
  length=$1 input=$2; shift 2
  { sh -c 'echo $PPID'; printf %s "$input"; exec cat <&3; } 2>/dev/null | {
    read -r feeder; sudo "$@" sh -c "$watched" sh "$length"; code=$?
    { kill -s PIPE "$feeder"; kill -s KILL "$feeder"; } 2>/dev/null; exit $code
  }
}
newline='
'
eval "$watch"
"""
"""Standard input stays open as long as the shell is needed. When it closes, because the shell is ended or railbed or
the connection is gone, the watcher ends the shell and all processes started there: sshd does not forward signals to
root. A command run through sudo has its own watcher, since only root may end it.

Such a command is not an argument of sudo either: everybody on the machine can read the arguments of every process. A
feeder, whose first line is the number of its process, writes the password and the script, of known length, to sudo's
standard input, and then passes on the end of our input, for which that watcher waits. It ends with SIGPIPE, which no
shell reports. A wrong password is noticed before that: sudo would wait for another one. A sudo that needs no password
leaves it in its input, where it must not become a command: everything before the line that begins the script is
skipped."""
EPILOGUE = "kill -s KILL $watcher\n"


OpenShell = Callable[[str], AbstractAsyncContextManager[Program]]
"""Starts a shell with the command line that `shell_command` returns."""


async def run_batch(
    device: str, open_shell: OpenShell, commands: Sequence[Command], *, sudo_password: str = ""
) -> AsyncGenerator[Output, None]:
    """Run commands in as few shells as possible: one, plus one for each command that does not end in time."""
    remaining = list(commands)
    while remaining:
        async with aclosing(_run_in_one_shell(device, open_shell, remaining, sudo_password)) as outputs:
            done = 0
            async for output in outputs:
                done += 1
                yield output
        remaining = remaining[done:]


def shell_command(script: bytes) -> str:
    """Return the command line of a shell that reads its script, of known length, and then runs it.

    It is plain enough for any login shell.
    """
    return f"exec /bin/sh -c 'PATH=$PATH:/usr/bin:/bin; script=$(head -c {len(script)}); eval \"$script\"'"


def render_script(commands: Sequence[Command], marker: str, *, sudo_password: str = "") -> str:
    """Return the script that runs the commands and frames their output.

    A shell reads it from its input: a password in it is in no process list, and it is not exported.
    """
    password = sudo_password if any(command.as_root for command in commands) else ""
    opening = f"sudo_password={shlex.quote(password)}\n"
    opening += f"printf '\\n%s\\n' {marker}; printf '\\n%s\\n' {marker} >&2\n"
    return PROLOGUE + opening + "".join(_render_command(command, marker) for command in commands) + EPILOGUE


def _render_command(command: Command, marker: str) -> str:
    guard = f"command -v {command.tool} >/dev/null 2>&1 || exit 127; " if command.tool else ""
    run = f"as_root {len(command.script.encode())}" if command.as_root else "exec 3<&-; eval"
    return (
        f"( {guard}{run} {shlex.quote(command.script)} ) </dev/null; code=$?\n"
        f"printf '\\n%s %s\\n' {marker} $code; printf '\\n%s\\n' {marker} >&2\n"
    )


async def _run_in_one_shell(
    device: str, open_shell: OpenShell, commands: Sequence[Command], sudo_password: str
) -> AsyncGenerator[Output, None]:
    marker = f"railbed-{secrets.token_hex(12)}"
    script = render_script(commands, marker, sudo_password=sudo_password).encode()
    async with open_shell(shell_command(script)) as shell:
        sent = time.time()
        await shell.write(script)
        stdout, stderr = _Frames(shell, 1, marker), _Frames(shell, 2, marker)
        await _skip_greeting(stdout, stderr)
        for command in commands:
            try:
                async with asyncio.timeout(command.timeout):
                    out, err = await _both(stdout, stderr)
            except TimeoutError:
                yield unfinished_output(device, command, stdout.partial_bytes(), sent)
                return
            except PrintsTooMuch:
                yield cut_off(device, command, stdout.partial_bytes(), stderr.partial_bytes(), sent)
                return
            if out is None or err is None:
                raise Unreachable(f"the connection ended in the middle of {command.key}")
            yield _output_of(device, command, out, err, sent)


async def _skip_greeting(stdout: _Frames, stderr: _Frames) -> None:
    """Drop the output of the login shell's start-up files, before our script begins."""
    try:
        async with asyncio.timeout(GREETING_SECONDS):
            out, err = await _both(stdout, stderr)
    except TimeoutError as error:
        raise (endless_output if _is_flood(stdout, stderr) else slow_shell)(GREETING_SECONDS) from error
    except asyncio.CancelledError as error:
        if _is_flood(stdout, stderr):
            error.add_note(FLOOD)  # for whoever explains why the device's time is over
        raise
    except PrintsTooMuch as error:
        raise Unreachable(
            f"its login printed more than {MAX_OUTPUT_BYTES // 2**20} MiB before a command could start",
            hint="look at the start-up files of its shell, such as ~/.bashrc and /etc/profile",
        ) from error
    if out is None or err is None:
        printed = (stdout.partial_bytes() or stderr.partial_bytes()).decode("utf-8", "replace").strip()
        raise Unreachable(
            f"it ended the session at once{': ' + printed.splitlines()[0][:120] if printed else ''}",
            hint="the account needs a login shell that can run `sh`",
        )


def _is_flood(stdout: _Frames, stderr: _Frames) -> bool:
    return len(stdout.partial_bytes()) + len(stderr.partial_bytes()) > LONGEST_GREETING


def out_of_time(error: TimeoutError, seconds: float) -> TimedOut:
    """Return the error for a device whose time was over before its first command began."""
    is_flood = error.__cause__ is not None and FLOOD in getattr(error.__cause__, "__notes__", ())
    return endless_output(seconds) if is_flood else slow_shell(seconds)


def endless_output(seconds: float) -> TimedOut:
    """Return the error for a device that prints until its time is over, rather than one that is silent."""
    return TimedOut(
        f"its output did not end within {seconds:g} s",
        hint="look at what `ssh HOST true` prints: a start-up file of its shell, such as ~/.bashrc or /etc/profile, "
        "may print without an end",
    )


def slow_shell(seconds: float) -> TimedOut:
    """Return the error for a login shell that is still in its start-up files."""
    return TimedOut(
        f"it accepted the login, but its login shell did not start within {seconds:g} s",
        hint="a start-up file is the likely cause (bash reads ~/.bashrc, zsh ~/.zshenv): see how long `ssh HOST true` "
        "takes, and let lines such as `pyenv init` or `conda init` run only if the shell is interactive",
    )


async def _both(stdout: _Frames, stderr: _Frames) -> tuple[_Frame | None, _Frame | None]:
    """Read both streams at once: a command that fills one while we wait on the other would never end."""
    try:
        async with asyncio.TaskGroup() as group:
            out, err = group.create_task(stdout.next()), group.create_task(stderr.next())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return out.result(), err.result()


class PrintsTooMuch(Exception):
    """A command printed more than MAX_OUTPUT_BYTES."""


@dataclass(frozen=True, slots=True)
class _Frame:
    data: bytes
    code: int | None


@dataclass(slots=True)
class _Frames:
    """Cuts one stream at the markers. Raises PrintsTooMuch if a frame has more than MAX_OUTPUT_BYTES."""

    shell: Program
    stream: int
    marker: str
    buffer: bytearray = field(default_factory=bytearray)
    frame: bytearray = field(default_factory=bytearray)

    async def next(self) -> _Frame | None:
        """Return the next frame, or None if the stream ended first."""
        mark = f"\n{self.marker}".encode()
        while True:
            at = self.buffer.find(mark)
            end = self.buffer.find(b"\n", at + len(mark)) if at >= 0 else -1
            if end >= 0:
                return self._take(at, end, len(mark))
            if at < 0:
                self._keep(max(0, len(self.buffer) - len(mark)))
            chunk = await self.shell.read(self.stream)
            if not chunk:
                return None
            self.buffer += chunk

    def partial_bytes(self) -> bytes:
        """Return the bytes of an incomplete frame."""
        return bytes(self.frame + self.buffer)[:MAX_OUTPUT_BYTES]

    def _take(self, at: int, end: int, mark_length: int) -> _Frame:
        code = self.buffer[at + mark_length : end].strip()
        self._keep(at)
        frame = _Frame(bytes(self.frame), int(code) if code.isdigit() else None)
        del self.buffer[: end - at + 1]
        self.frame = bytearray()
        return frame

    def _keep(self, count: int) -> None:
        """Move bytes without a marker from the buffer to the frame."""
        self.frame += self.buffer[:count]
        del self.buffer[:count]
        if len(self.frame) > MAX_OUTPUT_BYTES:
            raise PrintsTooMuch


def _output_of(device: str, command: Command, out: _Frame, err: _Frame, sent: float) -> Output:
    return Output(
        device=device,
        key=command.key,
        command=command.script,
        stdout=out.data,
        stderr=err.data,
        exit=out.code,
        sent=sent,
        received=time.time(),
    )


def unfinished_output(device: str, command: Command, partial: bytes, sent: float) -> Output:
    """Return the output of a command that did not end in time."""
    return Output(
        device=device,
        key=command.key,
        command=command.script,
        stdout=partial,
        exit=None,
        sent=sent,
        received=time.time(),
        failure=f"{LATE} {command.timeout:g} s",
    )


def cut_off(device: str, command: Command, out: bytes, err: bytes, sent: float) -> Output:
    """Return the output of a command that printed too much."""
    return Output(
        device=device,
        key=command.key,
        command=command.script,
        stdout=out[:EVIDENCE_BYTES],
        stderr=err[:EVIDENCE_BYTES],
        exit=None,
        sent=sent,
        received=time.time(),
        truncated=True,
        failure=f"printed more than {MAX_OUTPUT_BYTES // 2**20} MiB and was cut off",
    )
