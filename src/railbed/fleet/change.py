"""Changes devices by fixes, and reliably undoes them: the only way in which railbed changes a node.

`temporarily` undoes at the end of a block, for experiments. `commit` makes a permanent change, for `configure`:
the undo is saved first, and the device restores itself unless the change is confirmed in time.

In both cases a guard on the device holds the undo, in its own session. Its input ends when our shell there ends: when
railbed is killed, when the connection breaks, or when the time is up. Nothing that ends the shell ends the guard. Files
show its state:

    MARK (armed) ── input ends ──> MARK.undoing ── done ────> none
         │                              └───────── failed ──> MARK.failed, with what the commands printed
         └───────── confirmed ──> none
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from railbed.errors import DeviceError
from railbed.fleet.fleet import Fleet
from railbed.model.fix import FileStep, Fix, RunStep, Step
from railbed.transport.base import Command

MARK = "/tmp/railbed-change-"  # noqa: S108  (on the node, under a name that nobody can guess)
DAY = 24 * 3600
CONFIRM_SECONDS = 120
"""How long a device waits for the confirmation of a change before it restores itself."""
APPLY_SECONDS = 30.0
UNDO_SECONDS = 60.0
"""Generous, since a busy node may be late, and the next change must not see this one still in effect."""


class NotChanged(DeviceError):
    """A fix could not be applied; what it had done was undone."""


class NotUndone(DeviceError):
    """A change may still be in effect: on these devices, for these reasons."""

    def __init__(self, reasons: Mapping[str, str], undo: str) -> None:
        named = "; ".join(f"{device}: {reason}" for device, reason in reasons.items())
        hint = f"check there, and undo it by hand: {undo}" if undo else "check there"
        super().__init__(f"a change may still be in effect: {named}", hint=hint)
        self.reasons = reasons


@asynccontextmanager
async def temporarily(fleet: Fleet, fixes: Sequence[Fix]) -> AsyncIterator[None]:
    """Apply fixes, one for each device, and undo them at the end; raise NotChanged, or NotUndone."""
    exact = await asyncio.gather(*(with_exact_undo(fleet, fix) for fix in fixes))
    guards = [_Guard(fleet, fix, DAY) for fix in exact]
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
    seconds: int = CONFIRM_SECONDS,
) -> None:
    """Apply a fix permanently; raise NotChanged if it fails and was undone, or NotUndone if it could not be undone.

    `save` gets the fix that undoes it, before anything is changed. `verify` returns why the change is not good; it is
    undone then, and also if the device cannot be reached any more or the confirmation does not arrive in time.
    """
    exact = await with_exact_undo(fleet, fix)
    save(exact.inverse)
    guard = _Guard(fleet, exact, seconds)
    try:
        await guard.apply()
        if verify and (reason := await verify()):
            raise NotChanged(f"{fix.device} was changed back: {reason}")
        await guard.confirm()
    except BaseException:
        if reason := await guard.undo():
            raise _not_undone({exact: reason}) from None
        raise
    await guard.end()


async def with_exact_undo(fleet: Fleet, fix: Fix) -> Fix:
    """Return a fix whose undo also restores the files that it writes, as they are now."""
    if next(target for target in fleet.targets if target.name == fix.device).access not in ("local", "ssh"):
        raise NotChanged(f"{fix.device} cannot be changed: a guard needs a shell on the device")
    paths = [step.path for step in fix.apply if isinstance(step, FileStep)]
    if not paths:
        return fix
    script = "\n".join(
        f"if [ -e {path} ]; then base64 {path} | tr -d '\\n'; echo =; else echo; fi" for path in map(shlex.quote, paths)
    )
    output = await fleet.ask(fix.device, Command(key="files", script=script, timeout=APPLY_SECONDS, as_root=True))
    lines = output.text.splitlines()
    if output.exit != 0 or len(lines) != len(paths):
        raise NotChanged(f"{fix.device}: the files to change cannot be read: {output.trouble}")
    restored = [
        FileStep(path=path, content=_content(fix.device, path, line)) for path, line in zip(paths, lines, strict=True)
    ]
    return replace(fix, undo=(*fix.undo, *reversed(restored)))


def _content(device: str, path: str, line: str) -> str | None:
    if not line:
        return None
    try:
        return base64.b64decode(line.removesuffix("=")).decode("utf-8")
    except ValueError:
        raise NotChanged(f"{device}: {path} is not a text file") from None


class _Guard:
    """One device's change: applied once the guard is armed, undone by the guard."""

    def __init__(self, fleet: Fleet, fix: Fix, seconds: int) -> None:
        self.fix = fix
        self._fleet = fleet
        self._mark = f"{MARK}{secrets.token_hex(6)}"
        script = guard_script(fix.undo, self._mark, seconds)
        command = Command(key="guard", script=script, timeout=DAY, as_root=True, endless=True)
        self._task = asyncio.create_task(fleet.ask(fix.device, command))

    async def apply(self) -> None:
        output = await self._run("change", apply_script(self.fix.apply, self._mark), APPLY_SECONDS)
        if output:
            raise NotChanged(f"{self.fix.device} cannot be changed: {output}")

    async def confirm(self) -> None:
        """Disarm the guard so that the change stays; too late once it has begun to undo."""
        script = f"mv {self._mark} {self._mark}.kept && rm {self._mark}.kept"
        if reason := await self._run("confirm", script, APPLY_SECONDS):
            raise NotChanged(f"{self.fix.device} was changed back, since it was not confirmed in time: {reason}")

    async def undo(self) -> str:
        """End the guard's input and wait until it has undone the change; return why it has not."""
        await self.end()
        try:
            return await self._run("undone", undone_script(self._mark), UNDO_SECONDS)
        except DeviceError as error:
            return error.message

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, key: str, script: str, seconds: float) -> str:
        output = await self._fleet.ask(self.fix.device, Command(key=key, script=script, timeout=seconds, as_root=True))
        return "" if output.exit == 0 else output.trouble


def guard_script(undo: Iterable[Step], mark: str, seconds: int) -> str:
    """Return a script that waits until its input ends, and then undoes the change unless it was confirmed."""
    undoing = f"""umask 077
: >{mark}
cat
mv {mark} {mark}.undoing || exit 0
if (
code=0
{"".join(f"{_step(step)} || code=1{NEWLINE}" for step in undo)}exit $code
) >{mark}.log 2>&1; then rm {mark}.log; else mv {mark}.log {mark}.failed; fi
rm {mark}.undoing"""
    # If nobody reads any more, any output would end the shell before it has undone anything.
    return f"exec 3<&- >/dev/null 2>&1\nsleep {seconds} | setsid sh -c {shlex.quote(undoing)}\n"


def apply_script(apply: Iterable[Step], mark: str) -> str:
    """Return a script that waits for the guard and then applies the steps until one fails."""
    return " && ".join([f"until [ -e {mark} ]; do sleep 0.05; done", *map(_step, apply)])


def undone_script(mark: str) -> str:
    """Return a script that waits for the guard to end; if the undo failed, it fails with the undo's output."""
    waiting = f"while [ -e {mark} ] || [ -e {mark}.undoing ]; do sleep 0.05; done"
    return f"{waiting}; [ ! -e {mark}.failed ] || {{ cat {mark}.failed >&2; rm {mark}.failed; exit 1; }}"


NEWLINE = "\n"


def _step(step: Step) -> str:
    """Return a step as a command in a separate shell, so that it cannot affect the next step's shell."""
    match step:
        case RunStep(command=command):
            return f"(\n{command}\n)"
        case FileStep():
            return f"(\n{_write(step)}\n)"
    raise AssertionError("lines of a switch's configuration for a device with a shell")


def _write(step: FileStep) -> str:
    """Return the commands that write a file atomically, with its previous owner and mode."""
    path = shlex.quote(step.path)
    if step.content is None:
        return f"rm -f {path}"
    return f"""set -e; umask 022; file=$(readlink -f {path})
printf %s {shlex.quote(step.content)} >"$file.railbed-new"
if [ -e "$file" ]; then chmod --reference="$file" "$file.railbed-new"; chown --reference="$file" "$file.railbed-new"; fi
mv "$file.railbed-new" "$file" """


def _not_undone(left: Mapping[Fix, str]) -> NotUndone:
    undo = "; ".join(map(str, next(iter(left)).undo))
    return NotUndone({fix.device: reason for fix, reason in left.items()}, undo)
