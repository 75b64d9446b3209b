"""Changes devices by fixes, and reliably undoes them: the only way in which railbed changes a node.

`change_nodes_temporarily` undoes at the end of a block, for experiments. `commit` makes a permanent change, for
`configure`: the undo is saved first, and the device restores itself unless the change is confirmed in time.

In both cases a guard on the device holds the undo, in its own session. Its input ends when our shell there ends: when
railbed is killed, when the connection breaks, or when the time is up. Nothing that ends the shell ends the guard. If
the guard itself is killed, the lock is free and has its text: a change in progress can still be confirmed. Files
in FOLDER show its state. It is a folder of root alone, or nothing is changed: anybody who could create files beside the
mark, or hold the lock, could stop the guard, or have a change that stays reported as undone:

    MARK (armed) ── input ends ──> MARK.undoing ── done ────> none
         │                              └───────── failed ──> MARK.failed, with what the commands printed
         └───────── confirmed ──> none

While a guard lives it holds a lock on LOCK. A permanent change is refused while any other change is in force, and its
name in LOCK shows others who is changing the device; temporary changes exclude only permanent ones. Text in a LOCK that
nobody holds comes from a guard that died or could not undo: the device may be half-changed (`pending_change` reads it).
"""

from __future__ import annotations

import asyncio
import base64
import getpass
import os
import posixpath
import secrets
import shlex
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from railbed.errors import DeviceError
from railbed.fleet.fleet import Fleet
from railbed.model.fix import FileStep, Fix, RunStep, Step
from railbed.probes.pending_change import FOLDER, LOCK
from railbed.transport.base import Command

BUSY, UNSAFE = 75, 77
"""The exit status if somebody else is changing the device, and if FOLDER is not a folder of root alone."""
DAY = 24 * 3600
POLL_SECONDS = 5
CONFIRM_SECONDS = 120
"""How long a device waits for the confirmation of a change before it restores itself."""
APPLY_SECONDS = 30.0
UNDO_SECONDS = 60.0
"""Generous, since a busy node may be late, and the next change must not see this one still in effect."""


class NotChanged(DeviceError):
    """A fix could not be applied; what it had done was undone."""


class Refused(NotChanged):
    """Nothing was done."""


class BeingChanged(Refused):
    """Somebody else is changing the device right now, or left it half-changed; nothing was done."""


class NotUndone(DeviceError):
    """A change may still be in effect: on these devices, for these reasons."""

    def __init__(self, reasons: Mapping[str, str], undo: str) -> None:
        named = "; ".join(f"{device}: {reason}" for device, reason in reasons.items())
        hint = f"check the device, and undo the change by hand: {undo}" if undo else "check the device"
        super().__init__(f"a change may still be in effect: {named}", hint=hint)
        self.reasons = reasons


@asynccontextmanager
async def change_nodes_temporarily(fleet: Fleet, fixes: Sequence[Fix], holder: str) -> AsyncIterator[None]:
    """Apply fixes, one for each device, and undo them at the end; raise NotChanged, or NotUndone."""
    exact = await asyncio.gather(*(with_exact_undo(fleet, fix) for fix in fixes))
    guards = [_Guard(fleet, fix, DAY, holder, alone=False) for fix in exact]
    try:
        # All steps end before any undo begins: a step must not run after its own undo.
        for problem in await asyncio.gather(*(guard.apply() for guard in guards), return_exceptions=True):
            if problem:
                raise problem
        yield
    finally:
        reasons = await asyncio.gather(*(guard.undo() for guard in guards))
        if left := {guard.fix: reason for guard, reason in zip(guards, reasons, strict=True) if reason}:
            raise _not_undone(left)


async def commit(
    fleet: Fleet,
    fix: Fix,
    *,
    save: Callable[[Fix], None],
    verify: Callable[[], Awaitable[str]] | None = None,
    holder: str = "",
    seconds: int = CONFIRM_SECONDS,
    apply_seconds: float = APPLY_SECONDS,
) -> None:
    """Apply a fix permanently; raise NotChanged if it fails and was undone, or NotUndone if it could not be undone.

    `save` gets the fix that undoes it, before anything is changed. The change is undone if `verify` returns a reason,
    if the device can no longer be reached, or if the confirmation does not arrive in time. `holder` names the change to
    others who want to change the device in the meantime.
    """
    exact = await with_exact_undo(fleet, fix)
    save(exact.inverse)
    guard = _Guard(fleet, exact, round(seconds * fleet.patience), holder, alone=True)
    try:
        await guard.apply(apply_seconds)
        if verify and (reason := await verify()):
            raise NotChanged(f"{fix.device} was restored: {reason}")
        await guard.confirm()
    except BaseException:
        if reason := await guard.undo():
            raise _not_undone({exact: reason}) from None
        raise
    await guard.end()


async def with_exact_undo(fleet: Fleet, fix: Fix) -> Fix:
    """Return a fix whose undo also restores the files that it writes, as they are now."""
    if next(target for target in fleet.targets if target.name == fix.device).access not in ("local", "ssh", "srun"):
        raise NotChanged(f"{fix.device} cannot be changed: a guard needs a shell on the device")
    files = [step for step in fix.apply if isinstance(step, FileStep)]
    return replace(fix, undo=(*fix.undo, *reversed(await read_files(fleet, fix.device, files))))


async def read_files(fleet: Fleet, device: str, files: Sequence[FileStep]) -> list[FileStep]:
    """Return the steps that make files what they are now; raise NotChanged if they cannot be read."""
    if not files:
        return []
    script = "\n".join(
        f"if [ -e {path} ]; then stat -Lc '%a %u:%g' {path}; base64 {path} | tr -d '\\n'; echo =; else echo; echo; fi"
        for path in (shlex.quote(step.path) for step in files)
    )
    output = await fleet.ask(device, Command(key="files", script=script, timeout=APPLY_SECONDS, as_root=True))
    lines = output.text.splitlines()
    if output.exit != 0 or len(lines) != 2 * len(files):
        raise NotChanged(f"{device}: the files to change cannot be read: {output.trouble}")
    return [_restoring(device, *file) for file in zip(files, lines[::2], lines[1::2], strict=True)]


def _restoring(device: str, step: FileStep, rights: str, content: str) -> FileStep:
    """Return the step that makes a file what it is now."""
    if not rights:
        return replace(step, content=None, mode="", owner="")
    mode, owner = rights.split()
    try:
        text = base64.b64decode(content.removesuffix("=")).decode("utf-8")
    except ValueError:
        raise NotChanged(f"{device}: {step.path} is not a text file") from None
    return replace(step, content=text, mode=mode, owner=owner)


class _Guard:
    """One device's change: applied once the guard is armed, undone by the guard."""

    def __init__(self, fleet: Fleet, fix: Fix, seconds: int, holder: str, *, alone: bool) -> None:
        self.fix = fix
        self._fleet = fleet
        self._mark = f"{FOLDER}/change-{secrets.token_hex(6)}"
        script = guard_script(fix.undo, self._mark, seconds, holder=describe_holder(holder), alone=alone)
        command = Command(key="guard", script=script, timeout=DAY, as_root=True, endless=True)
        self._task = asyncio.create_task(fleet.ask(fix.device, command))

    async def apply(self, seconds: float = APPLY_SECONDS) -> None:
        command = Command(key="change", script=apply_script(self.fix.apply, self._mark), timeout=seconds, as_root=True)
        output = await self._fleet.ask(self.fix.device, command)
        if output.exit == BUSY:
            raise BeingChanged(f"{self.fix.device} is being changed by somebody else: {output.trouble}")
        if output.exit == UNSAFE:
            raise Refused(f"{self.fix.device} cannot be changed: {output.trouble}", hint=f"remove {FOLDER} there")
        if output.exit != 0:
            raise NotChanged(f"{self.fix.device} cannot be changed: {output.trouble}{self._at(output.text)}")

    def _at(self, printed: str) -> str:
        """Return the step that failed, whose number is the last line printed."""
        number = (printed.split() or [""])[-1]
        return f" (at: {self.fix.apply[int(number)]})" if number.isdigit() and int(number) < len(self.fix.apply) else ""

    async def confirm(self) -> None:
        """Disarm the guard so that the change stays; raise NotChanged if it has already begun to undo."""
        # A guard that was killed cannot clear the lock, which only a guard that is alive holds.
        clear = f"{{ command -v flock && flock -xn {LOCK} sh -c ': >{LOCK}'; }} >/dev/null 2>&1 || :"
        script = f"mv {self._mark} {self._mark}.kept && rm {self._mark}.kept && {{ {clear}; }}"
        if reason := await self._run("confirm", script, APPLY_SECONDS):
            raise NotChanged(f"{self.fix.device} was restored, since the change was not confirmed in time: {reason}")

    async def undo(self) -> str:
        """End the guard's input and wait until it has undone the change; return why it has not."""
        await self.end()
        try:
            return await self._run("undone", undone_script(self._mark), UNDO_SECONDS + self.fix.seconds)
        except DeviceError as error:
            return error.message

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, key: str, script: str, seconds: float) -> str:
        output = await self._fleet.ask(self.fix.device, Command(key=key, script=script, timeout=seconds, as_root=True))
        return "" if output.exit == 0 else output.trouble


def guard_script(undo: Iterable[Step], mark: str, seconds: int, *, holder: str, alone: bool) -> str:
    """Return a script that waits until its input ends, and then undoes the change unless it was confirmed.

    With `alone`, no other change may be in force, and the holder is named from the start; otherwise it is named only if
    its undo fails. The script waits a little for the lock: probes that only inspect it hold it for a moment, too.
    """
    sign, clear = f"printf '%s\\n' {shlex.quote(holder)} >>{LOCK}", f": >{LOCK}"
    lock, begin, done, failed = ("-x", f"{clear}; {sign}", clear, ":") if alone else ("-s", ":", ":", sign)
    undoing = f"""umask 077
: >{mark}
while read -r _; do :; done
mv {mark} {mark}.undoing || [ -e {mark} ] || {{ {done}; exit 0; }}
log={mark}.log
: >$log || log=/dev/null
if (
exec 9>&-
umask 022
code=0
{"".join(f"{_step(step)} || code=1{NEWLINE}" for step in undo)}exit $code
) >$log 2>&1; then {done}; else
{failed}
cat $log >>{LOCK}; cat $log >>{mark}.undoing
mv {mark}.undoing {mark}.failed || mv {mark} {mark}.failed
fi
rm -f {mark}.log {mark} {mark}.undoing"""
    busy = f"{{ grep -m 1 . {LOCK} || echo an experiment; }} >{mark}.new; mv {mark}.new {mark}.busy"
    reading = f'script=$(head -c {len(undoing.encode())}); eval "$script"'
    # If nothing reads the output, printing would end the shell before it has undone anything. The guard reads its
    # script, since everybody on the device can read the arguments of every process.
    return f"""exec 3<&- >/dev/null 2>&1
umask 077
{private_folder()} || exit
exec 9>>{LOCK}
if command -v flock && ! flock {lock} -w 5 9; then {busy}; exit; fi
{begin}
{{ exec 9>&-; printf %s {shlex.quote(undoing)}; {_waiting(seconds)}; }} | setsid sh -c {shlex.quote(reading)} &
exec 9>&-
wait $!
"""


def _waiting(seconds: int) -> str:
    """Return the commands that wait for a time, or until our shell or the guard is gone: each may be killed alone."""
    pause = max(1, min(seconds, POLL_SECONDS))
    both_live = "kill -0 $$ && echo"
    return f"n={seconds // pause}; while [ $n -gt 0 ] && {both_live}; do sleep {pause} >/dev/null; n=$((n-1)); done"


def private_folder() -> str:
    """Return the command that creates FOLDER, and fails with a sentence if it is not a folder of this user alone."""
    mine = f"""[ "$(stat -c '%F %u %a' {FOLDER} 2>&1)" = "directory $(id -u) 700" ]"""
    refusal = f'echo "{FOLDER} is not a folder of $(id -un) alone: $(ls -ld {FOLDER} 2>&1)" >&2'
    return f"{{ mkdir -m 700 {FOLDER} 2>/dev/null; {mine} || {{ {refusal}; false; }}; }}"


def apply_script(apply: Iterable[Step], mark: str) -> str:
    """Return a script that waits for the guard and applies the steps until one fails, whose number it prints."""
    waiting = f"""{private_folder()} || exit {UNSAFE}
until [ -e {mark} ]; do
if [ -e {mark}.busy ]; then cat {mark}.busy >&2; rm {mark}.busy; exit {BUSY}; fi
sleep 0.05
done"""
    steps = (f"{_step(step)} || {{ code=$?; echo {number}; exit $code; }}" for number, step in enumerate(apply))
    return "\n".join([waiting, *steps])


def undone_script(mark: str) -> str:
    """Return a script that waits for the guard to end; if the undo failed, it fails with the undo's output.

    It also fails if the guard was killed: then nobody holds the lock any more.
    """
    pending = f"[ -e {mark} ] || [ -e {mark}.undoing ]"
    killed = f"command -v flock >/dev/null && flock -xn {LOCK} true && {{ {pending}; }}"
    waiting = f"while {pending}; do if {killed}; then echo {GUARD_KILLED} >&2; exit 1; fi; sleep 0.05; done"
    failed = f"[ ! -e {mark}.failed ] || {{ cat {mark}.failed >&2; rm {mark}.failed; exit 1; }}"
    return f"{waiting}; rm -f {mark}.busy; {failed}"


NEWLINE = "\n"
GUARD_KILLED = "the guard of the change was killed"
DCB = "dcb "
"""A command that is tried twice. `dcb` of iproute2 numbers its requests with the second of the clock: if another second
begins between its reading and its writing, it gets an answer with the wrong number: "Protocol error"."""


def _step(step: Step) -> str:
    """Return a step as a command in a separate shell, so that it cannot affect the next step's shell."""
    match step:
        case RunStep() if step.command.startswith(DCB):
            return f"(\n{step.script}\n) 2>/dev/null || (\n{step.script}\n)"
        case RunStep():
            return f"(\n{step.script}\n)"
        case FileStep():
            return f"(\n{_write(step)}\n)"
    raise AssertionError("lines of a switch's configuration for a device with a shell")


def _write(step: FileStep) -> str:
    """Return the commands that write a file atomically, with its previous owner and mode."""
    path, folder = shlex.quote(step.path), shlex.quote(posixpath.dirname(step.path))
    if step.content is None:
        return f"rm -f {path}" + (f"; rmdir --ignore-fail-on-non-empty {folder}" if step.own_folder else "")
    making = f"mkdir -p {folder} && " if step.own_folder else ""
    rights = [f'chmod {shlex.quote(step.mode)} "$new"'] if step.mode else []
    rights += [f'chown {shlex.quote(step.owner)} "$new"'] if step.owner else []
    # Joined by hand: `set -e` has no effect in a command whose failure is handled, as every step's is.
    as_it_is = 'chmod --reference="$file" "$new" && chown --reference="$file" "$new"'
    copying = f'if [ -e "$file" ]; then {as_it_is}; else chmod 644 "$new"; fi'
    writing = " && ".join([f'printf %s {shlex.quote(step.content)} >"$new"', copying, *rights, 'mv "$new" "$file"'])
    return f"""umask 022; {making}file=$(readlink -f {path}) && new=$(mktemp "$file.XXXXXX") || exit 1
{writing} || {{ rm -f "$new"; exit 1; }}"""


def describe_holder(purpose: str) -> str:
    """Return one line that shows other users who is changing a device."""
    user, machine = getpass.getuser(), socket.gethostname()
    since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    return f"{purpose or 'a change'}, {user} on {machine}, pid {os.getpid()}, since {since}"


def _not_undone(left: Mapping[Fix, str]) -> NotUndone:
    undo = "; ".join(map(str, next(iter(left)).undo))
    return NotUndone({fix.device: reason for fix, reason in left.items()}, undo)
