"""Changes switches by lines of their configuration, under a checkpoint: the only way in which railbed changes a switch.

A switch cannot run a guard. Two checkpoints stand in for it: one, named after the run, is the state before the change
and stays for `undo`; the other, CHANGING, exists only during the change, or while a temporary change is in force. No
name can exist twice, so CHANGING is a lock, whose description names the holder (`parsing.nexus.switch_lock`). If it is
left behind, the switch may be half-changed. The order of the steps makes every point where a change is cut short
recognisable:

    lock ─> save the undo ─> checkpoint of the run ─> lines ─> log in again ─> save the configuration ─> unlock
         nothing changed yet                         half-changed                                     complete
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from railbed.errors import DeviceError, ParseError
from railbed.fleet.change import BeingChanged, NotChanged, NotUndone, Refused
from railbed.fleet.fleet import Fleet
from railbed.model.fix import ConfigStep, Fix, Persistence, RunStep, Step, run
from railbed.model.output import Output
from railbed.parsing.nexus.switch_lock import CHANGING, UNLOCK, Holder, describe_lock, rollback_command, way_out
from railbed.probes.nexus import checkpoints
from railbed.transport.base import Command

REFUSAL = re.compile(r"^[ \t]*+(%\s?\S[^\n]*+|ERROR:[^\n]*+|Syntax error[^\n]*+)", re.MULTILINE)
"""A refusal anywhere in the output of a switch: the lines after it are still executed."""
EXISTS = re.compile(r"already exists|exist already", re.IGNORECASE)
MISSING = "does not exist"
ROLLED_BACK = re.compile(r"completed successfully|Patch is Empty", re.IGNORECASE)
SAVE = "copy running-config startup-config"
STEP_SECONDS = 30.0
ROLLBACK_SECONDS = 120.0

TakeOver = Callable[[Holder], bool]
"""Decides whether a lock can be taken over: its holder is known to have ended."""


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """One change of one switch."""

    fleet: Fleet
    fix: Fix
    checkpoint: str
    """The state before the change."""
    holder: Holder
    take_over: TakeOver = lambda _: False

    @property
    def device(self) -> str:
        """The switch."""
        return self.fix.device

    async def commit(self, *, save: Callable[[Fix], None], verify: Callable[[], Awaitable[str]]) -> str:
        """Apply the lines and save them; return what the user should know about it.

        Raise NotChanged if it was rolled back, BeingChanged if somebody else is changing the switch, and NotUndone if
        the rollback failed. If an earlier run was cut short and its lock is taken over, the lock stays until the
        changes are complete.
        """
        earlier = await self._lock()
        startup_at_risk = False
        try:
            saved = await self._is_saved()
            save(self._undo_fix(saved))
            await self._accepted(f"checkpoint {self.checkpoint}")
            for step in self.fix.apply:
                await self._step(step)
            if reason := await verify():
                raise NotChanged(f"{self.device} was restored: {reason}")
            if saved:
                startup_at_risk = True
                await self._accepted(SAVE, ROLLBACK_SECONDS)
        except BaseException as error:
            await self._roll_back(error, save=startup_at_risk, unlock=earlier is None)
            raise
        await self._unlock()
        return "" if saved else f"not saved, since it had unsaved changes before: `{SAVE}`"

    @asynccontextmanager
    async def temporarily(self) -> AsyncIterator[None]:
        """Apply the lines, save nothing, and roll back at the end; raise NotChanged, BeingChanged or NotUndone."""
        await self._lock()
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

    async def undo(self) -> str:
        """Roll back to the checkpoint of an earlier run and remove it; return what the user should know about it.

        Raise Refused if the checkpoint is gone, BeingChanged if somebody else is changing the switch, and NotUndone if
        the rollback fails.
        """
        earlier = await self._lock()
        with self._in_doubt():
            for command in map(str, self.fix.apply):
                if command != UNLOCK:
                    await self._undo_step(command, earlier)
            if earlier and earlier.run != self.holder.run:
                return f"it is still {describe_lock(earlier)}; {way_out(earlier)}"
        await self._unlock()
        return ""

    async def _undo_step(self, command: str, earlier: Holder | None) -> None:
        """Run a command of an undo, which an earlier attempt may have run already."""
        output = await self._ask(command, ROLLBACK_SECONDS)
        rolls_back = command.startswith("rollback")
        if MISSING in _refusal(output):
            if rolls_back:
                await self._roll_back_without_checkpoint(earlier)
        elif _refusal(output) or output.failure or (rolls_back and not ROLLED_BACK.search(output.text)):
            raise NotUndone({self.device: _refusal(output) or output.trouble}, command)

    async def _roll_back_without_checkpoint(self, earlier: Holder | None) -> None:
        """Decide what it means that the checkpoint of the run to undo does not exist."""
        if earlier is None or earlier.run != self.holder.run:
            if earlier is None:
                await self._ask(UNLOCK)
            raise Refused(f"{self.device} has no checkpoint {self.checkpoint} any more: it cannot be rolled back")
        if earlier.purpose == "run":
            # The run was cut short before it created its checkpoint, or an undo of it after it removed the checkpoint:
            # the lock, created before both, is the same state.
            await self._undo_step(rollback_command(CHANGING), earlier)
        # Otherwise an earlier undo removed the checkpoint, after it had rolled back.

    def _undo_fix(self, saved: bool) -> Fix:
        commands = [rollback_command(self.checkpoint), *([SAVE] if saved else []), f"no checkpoint {self.checkpoint}"]
        return Fix(
            device=self.device,
            apply=run(*commands),
            undo=(),
            persistence=Persistence.KEPT,
            interrupts=self.fix.interrupts,
        )

    @contextmanager
    def _in_doubt(self) -> Iterator[None]:
        """Raise NotUndone if something cuts it short while it is uncertain whether the switch executed the command."""
        try:
            yield
        except (NotChanged, NotUndone):
            raise
        except DeviceError as error:
            raise NotUndone({self.device: error.message}, "") from error
        except asyncio.CancelledError as error:
            raise NotUndone({self.device: "interrupted"}, "") from error

    async def _lock(self) -> Holder | None:
        """Take the lock; return who left it behind if it is taken over. Raise BeingChanged if somebody else has it."""
        with self._in_doubt():
            output = await self._ask(f"checkpoint {CHANGING} description {self.holder.description}")
            refusal = _refusal(output)
            if output.failure:
                raise NotUndone({self.device: output.failure}, UNLOCK)
            if not refusal:
                return None
            if not EXISTS.search(refusal):
                raise Refused(f"{self.device} cannot be changed: {refusal}")
            holder = await self._read_holder()
        if holder and self.take_over(holder):
            return holder
        raise BeingChanged(f"{self.device} is {describe_lock(holder)}", hint=way_out(holder))

    async def _unlock(self) -> None:
        with self._in_doubt():
            await self._insist(UNLOCK)

    async def _read_holder(self) -> Holder | None:
        output = await self._ask(str(checkpoints.PROBE.command))
        try:
            return checkpoints.parse(output.text).holder
        except ParseError:
            return None

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

    async def _roll_back(self, error: BaseException | None, *, save: bool = False, unlock: bool = True) -> None:
        """Restore the state before the change; with `save`, also in the startup configuration."""
        command = rollback_command(self.checkpoint)
        try:
            output = await self._insist(command, ROLLBACK_SECONDS)
            missing = MISSING in _refusal(output)  # nothing had been changed yet
            if not missing and not ROLLED_BACK.search(output.text):
                raise NotUndone({self.device: _refusal(output) or output.trouble}, command) from error
            if save and (refusal := _refusal(output := await self._insist(SAVE, ROLLBACK_SECONDS)) or output.failure):
                raise NotUndone({self.device: refusal}, SAVE) from error
            for name in dict.fromkeys((self.checkpoint, *([CHANGING] if unlock else []))):
                await self._insist(f"no checkpoint {name}")
        except DeviceError as lost:
            if isinstance(lost, NotUndone):
                raise
            raise NotUndone({self.device: lost.message}, command) from error

    async def _accepted(self, command: str, seconds: float = STEP_SECONDS) -> None:
        output = await self._ask(command, seconds)
        if refusal := _refusal(output) or output.failure:
            raise NotChanged(f"{self.device} cannot be changed: {refusal} (at: {command})")

    async def _insist(self, command: str, seconds: float = STEP_SECONDS) -> Output:
        """Run a command that has the same effect twice; again, over a new connection, if the connection breaks."""
        try:
            return await self._ask(command, seconds)
        except DeviceError:
            return await self._ask(command, seconds)

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


def _key(command: str) -> str:
    """Return the name under which the output is recorded."""
    return re.sub(r"[^a-z]+", "_", command.lower())[:24].strip("_")
