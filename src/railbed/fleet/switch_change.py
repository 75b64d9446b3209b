"""Changes switches by lines of their configuration, under a checkpoint: the only way in which railbed changes a switch.

A switch cannot run a guard. Two checkpoints stand in for it: one, named after the run, is the state before the change
and stays for `undo`; the other, CHANGING, exists only during the change, or while a temporary change is in force. No
name can exist twice, so CHANGING is a lock; if it is left behind, the switch may be half-changed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from railbed.errors import DeviceError
from railbed.fleet.change import BeingChanged, NotChanged, NotUndone, describe_holder
from railbed.fleet.fleet import Fleet
from railbed.model.fix import ConfigStep, Fix, Persistence, RunStep, Step, run
from railbed.model.output import Output
from railbed.transport.base import Command

CHANGING = "railbed-changing"
REFUSAL = re.compile(r"^[ \t]*+(%\s?\S[^\n]*+|ERROR:[^\n]*+|Syntax error[^\n]*+)", re.MULTILINE)
"""A refusal anywhere in the output of a switch: the lines after it are still executed."""
EXISTS = re.compile(r"already exists|exist already", re.IGNORECASE)
ROLLED_BACK = re.compile(r"completed successfully|Patch is Empty", re.IGNORECASE)
STEP_SECONDS = 30.0
ROLLBACK_SECONDS = 120.0
MOST_NAME = 60


def checkpoint_name(run: str) -> str:
    """Return the name of the checkpoint of a run."""
    return f"railbed-{run}"[:MOST_NAME]


def rollback_command(checkpoint: str) -> str:
    """Return the command that restores the configuration of a checkpoint: all of it, or nothing."""
    return f"rollback running-config checkpoint {checkpoint} atomic"


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """One change of one switch."""

    fleet: Fleet
    fix: Fix
    checkpoint: str
    """The state before the change."""
    holder: str

    @property
    def device(self) -> str:
        """The switch."""
        return self.fix.device

    async def commit(
        self, *, save: Callable[[Fix], None], verify: Callable[[], Awaitable[str]], take_over: bool = False
    ) -> str:
        """Apply the lines and save them; return what the user should know about it.

        Raise NotChanged if it was rolled back, BeingChanged if somebody else is changing the switch, and NotUndone if
        the rollback failed. `take_over` continues where an earlier run was cut short.
        """
        with self._in_doubt():
            await self._lock(take_over=take_over)
        try:
            saved = await self._is_saved()
            await self._accepted(f"checkpoint {self.checkpoint}")
            save(self._undo_fix(saved))
            for step in self.fix.apply:
                await self._step(step)
            if reason := await verify():
                raise NotChanged(f"{self.device} was restored: {reason}")
        except BaseException as error:
            await self._roll_back(error)
            raise
        with self._in_doubt():
            if saved:
                await self._accepted("copy running-config startup-config", ROLLBACK_SECONDS)
            await self._ask(f"no checkpoint {CHANGING}")
        return "" if saved else "not saved, since it had unsaved changes before: `copy running-config startup-config`"

    @asynccontextmanager
    async def temporarily(self) -> AsyncIterator[None]:
        """Apply the lines, save nothing, and roll back at the end; raise NotChanged, BeingChanged or NotUndone."""
        with self._in_doubt():
            await self._lock(take_over=False)
        error: BaseException | None = None
        try:
            for step in self.fix.apply:
                await self._step(step)
            yield
        except BaseException as problem:
            error = problem
            raise
        finally:
            await self._roll_back(error)

    async def undo(self) -> None:
        """Roll back to the checkpoint of an earlier run and remove it; raise NotUndone if that fails."""
        await self._lock(take_over=True)
        for step in self.fix.apply:
            try:
                output = await self._ask(str(step), ROLLBACK_SECONDS)
            except DeviceError as error:
                raise NotUndone({self.device: error.message}, str(self.fix.apply[0])) from error
            if _refusal(output) or (str(step).startswith("rollback") and not ROLLED_BACK.search(output.text)):
                raise NotUndone({self.device: _refusal(output) or output.trouble}, str(step))
        await self._ask(f"no checkpoint {CHANGING}")

    def _undo_fix(self, saved: bool) -> Fix:
        commands = [rollback_command(self.checkpoint)]
        commands += ["copy running-config startup-config"] if saved else []
        commands.append(f"no checkpoint {self.checkpoint}")
        return Fix(
            device=self.device,
            apply=run(*commands),
            undo=(),
            persistence=Persistence.KEPT,
            interrupts=self.fix.interrupts,
        )

    @contextmanager
    def _in_doubt(self) -> Iterator[None]:
        """Raise NotUndone if the connection breaks while it is uncertain whether the switch executed the command."""
        try:
            yield
        except NotChanged:
            raise
        except DeviceError as error:
            raise NotUndone({self.device: error.message}, f"no checkpoint {CHANGING}") from error

    async def _lock(self, *, take_over: bool) -> None:
        output = await self._ask(f"checkpoint {CHANGING} description {_one_word(self.holder)}")
        refusal = _refusal(output)
        if refusal and not EXISTS.search(refusal):
            raise NotChanged(f"{self.device} cannot be changed: {refusal}")
        if refusal and not take_over:
            raise BeingChanged(
                f"{self.device} has a checkpoint {CHANGING}: somebody is changing it, or was cut short",
                hint=f"`show checkpoint {CHANGING}` shows the state before that, `no checkpoint {CHANGING}` unlocks it",
            )

    async def _step(self, step: Step) -> None:
        match step:
            case ConfigStep(lines=lines):
                command = " ; ".join(["configure terminal", *entered(lines)])
            case RunStep(command=command):
                pass
            case _:
                raise AssertionError("a file on a switch")
        await self._accepted(command)

    async def _is_saved(self) -> bool:
        """Whether startup and running configuration are equal: if not, saving would also save other people's work."""
        running, startup = [
            await self._ask(f"show {which}-config", ROLLBACK_SECONDS) for which in ("running", "startup")
        ]
        return _lines(running) == _lines(startup)

    async def _roll_back(self, error: BaseException | None) -> None:
        rollback = rollback_command(self.checkpoint)
        try:
            output = await self._ask(rollback, ROLLBACK_SECONDS)
            missing = "does not exist" in _refusal(output)  # nothing had been changed yet
            if not missing and not ROLLED_BACK.search(output.text):
                raise NotUndone({self.device: _refusal(output) or output.trouble}, rollback) from error
            for name in dict.fromkeys((self.checkpoint, CHANGING)):
                await self._ask(f"no checkpoint {name}")
        except DeviceError as lost:
            if isinstance(lost, NotUndone):
                raise
            raise NotUndone({self.device: lost.message}, rollback) from error

    async def _accepted(self, command: str, seconds: float = STEP_SECONDS) -> None:
        output = await self._ask(command, seconds)
        if refusal := _refusal(output) or output.failure:
            raise NotChanged(f"{self.device} cannot be changed: {refusal} (at: {command})")

    async def _ask(self, command: str, seconds: float = STEP_SECONDS) -> Output:
        return await self.fleet.ask(self.device, Command(key=_key(command), script=command, timeout=seconds))


def entered(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines as they are typed; `exit` leaves each mode, since some lines are valid in two modes."""
    depth: list[int] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while depth and depth[-1] >= indent:
            if depth.pop() > indent:
                yield "exit"
        depth.append(indent)
        yield line.strip()


def _refusal(output: Output) -> str:
    match = REFUSAL.search(output.text)
    return match[1].strip() if match else output.complaint if output.exit != 0 else ""


def _lines(output: Output) -> list[str]:
    """Return a configuration without its comments, which contain times."""
    return [line.rstrip() for line in output.text.splitlines() if line.strip() and not line.startswith("!")]


def _one_word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.@:-]+", "-", describe_holder(text))[:MOST_NAME]


def _key(command: str) -> str:
    """Return the name under which the output is recorded."""
    return re.sub(r"[^a-z]+", "_", command.lower())[:24].strip("_")
