"""Changes switches by lines of their configuration, under a checkpoint: the only way in which railbed changes a switch.

A switch cannot run a guard. Two checkpoints stand in for it: one, named after the run, is the state before the change,
and stays; the other, CHANGING, exists only during the change, or while a temporary change is in force. No name can
exist twice, so CHANGING is a lock, whose description names the holder (`parsing.nexus.switch_lock`). If it is left
behind, the switch may be half-changed. The order of the steps makes every point where a change is cut short
recognisable:

    lock ─> save the undo ─> checkpoint of the run ─> lines ─> log in again ─> save the configuration ─> unlock
         nothing changed yet                         half-changed                                     complete

An undo is a change of its own. It restores only what the run has changed (`parsing.nexus.slots`), never a checkpoint:
that would also erase what others have entered since.
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
from railbed.model.fix import ConfigStep, Fix, Persistence, SlotStep, Step, is_one_line
from railbed.model.reading import Output
from railbed.parsing.nexus.refusals import refusal_within
from railbed.parsing.nexus.slots import (
    ConfigSection,
    changed_between,
    content_of,
    lines_to_enter,
    parse_lines,
    touched_by,
)
from railbed.parsing.nexus.switch_lock import (
    CHANGING,
    UNLOCK,
    Holder,
    checkpoint_name,
    describe_lock,
    rollback_command,
    way_out,
)
from railbed.probes.nexus import checkpoints
from railbed.transport.base import Command

EXISTS = re.compile(r"already exists|exist already", re.IGNORECASE)
MISSING = "does not exist"
ROLLED_BACK = re.compile(r"completed successfully|Patch is Empty", re.IGNORECASE)
SAVE = "copy running-config startup-config"
NOT_SAVED = f"not saved, since it had unsaved changes before: `{SAVE}`"
COMMENTS = ("!", "-----", "Name: ", "version ")
STEP_SECONDS = 30.0
ROLLBACK_SECONDS = 120.0

TakeOver = Callable[[Holder], bool]
"""Decides whether a lock can be taken over: its holder is known to have ended."""


@dataclass(slots=True)
class _Attempt:
    """How far a change has come."""

    change: SwitchChange
    checkpoint: str = ""
    """The state before the change; empty as long as nothing was changed."""
    is_saving: bool = False
    """The startup configuration may have been written."""

    async def save_if(self, is_saved: bool) -> None:
        """Save the configuration if it was saved before."""
        if is_saved:
            self.is_saving = True
            await self.change.accept(SAVE, ROLLBACK_SECONDS)


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
        changes are complete. `save` gets the undo, again once it is known what the lines did.
        """
        earlier = await self._lock()
        async with self._roll_back_if_it_fails(earlier) as attempt:
            before, is_saved = await self._read(earlier)
            lines = [line for step in self.fix.apply if isinstance(step, ConfigStep) for line in step.lines]
            touched = touched_by(lines, before)
            save(self._undo_fix(touched))
            await self._create_checkpoint(attempt, [self.checkpoint])
            await self._enter(verify)
            save(self._undo_fix(changed_between(before, await self._running(), touched)))
            await attempt.save_if(is_saved)
        await self._unlock()
        return "" if is_saved else NOT_SAVED

    async def undo(self, run: str, verify: Callable[[], Awaitable[str]]) -> str:
        """Enter the lines that undo a run, and save them; return what the user should know about it.

        Raise Refused if the switch has changed since the lines were chosen, BeingChanged if somebody else is changing
        it, NotChanged if it was rolled back, and NotUndone if the rollback failed.
        """
        earlier = await self._lock()
        lines = [step for step in self.fix.apply if isinstance(step, ConfigStep)]
        async with self._roll_back_if_it_fails(earlier) as attempt:
            running, is_saved = await self._read(earlier)
            self._require_unchanged(running)
            if lines:
                names = [self.checkpoint, *(f"{self.checkpoint}-{number}" for number in range(2, 10))]
                await self._create_checkpoint(attempt, names)
                await self._enter(verify)
            if lines or (earlier and (earlier.purpose, earlier.run) == ("undo", run)):
                await attempt.save_if(is_saved)
        notes = [self.fix.note] if self.fix.note else []
        if lines:
            notes.append(f"checkpoint {attempt.checkpoint} is the state before this undo")
        if lines and not is_saved:
            notes.append(NOT_SAVED)
        if not self.fix.note:
            with self._in_doubt():
                await self._insist(f"no checkpoint {checkpoint_name(run)}")
        if earlier and earlier.run != self.holder.run:
            return f"it is still {describe_lock(earlier)}; {way_out(earlier)}"
        await self._unlock()
        return "; ".join(notes)

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
            await self._roll_back(self.checkpoint, error)

    def _undo_fix(self, slots: Sequence[SlotStep]) -> Fix:
        return Fix(
            device=self.device,
            apply=tuple(slots),
            undo=(),
            persistence=Persistence.KEPT,
            interrupts=self.fix.interrupts,
        )

    def _require_unchanged(self, running: ConfigSection) -> None:
        """Refuse an undo if a slot is not as it was when its lines were chosen and shown."""
        for step in self.fix.undo:
            if isinstance(step, SlotStep) and content_of(step, running) != step.before:
                where = " / ".join((*step.section, step.slot))
                raise Refused(f"{self.device} has changed since the lines were shown ({where})", hint="run it again")

    async def _create_checkpoint(self, attempt: _Attempt, names: Sequence[str]) -> None:
        """Create the checkpoint under the first name that is free: another may be that of a run in another folder."""
        for name in names:
            attempt.checkpoint = name
            output = await self._ask(f"checkpoint {name}")
            if not EXISTS.search(_refusal(output)):
                _require_accepted(self.device, f"checkpoint {name}", output)
                return
            attempt.checkpoint = ""
        raise Refused(f"{self.device} already has a checkpoint {names[0]}", hint="run it again")

    async def _enter(self, verify: Callable[[], Awaitable[str]]) -> None:
        """Enter the lines and log in again."""
        for step in self.fix.apply:
            await self._step(step)
        if reason := await verify():
            raise NotChanged(f"{self.device} was restored: {reason}")

    @asynccontextmanager
    async def _roll_back_if_it_fails(self, earlier: Holder | None) -> AsyncIterator[_Attempt]:
        """Restore the state before the change if the block fails; a lock that was taken over stays."""
        attempt = _Attempt(self)
        try:
            yield attempt
        except BaseException as error:
            await self._roll_back(attempt.checkpoint, error, save=attempt.is_saving, unlock=earlier is None)
            raise

    async def _read(self, earlier: Holder | None) -> tuple[ConfigSection, bool]:
        """Return the running configuration, and whether it was saved before the change, or before that of `earlier`.

        If it was not, saving would also save other people's work.
        """
        running = await self._configuration("running-config")
        startup = await self._configuration("startup-config")
        is_saved = running == startup
        if earlier and not is_saved:
            is_saved = await self._configuration(f"checkpoint {CHANGING}") == startup
        return parse_lines(running), is_saved

    async def _running(self) -> ConfigSection:
        return parse_lines(await self._configuration("running-config"))

    async def _configuration(self, which: str) -> list[str]:
        return await _read_configuration(self.fleet, self.device, which)

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
        self._require_lines()
        with self._in_doubt():
            output = await self._ask(f"checkpoint {CHANGING} description {self.holder.description}")
            refusal = _refusal(output)
            if output.failure:
                raise NotUndone({self.device: output.failure}, UNLOCK)
            if not refusal:
                return None
            if not EXISTS.search(refusal):
                raise Refused(f"{self.device} cannot be changed: {refusal}")
            holder = await _read_holder(self.fleet, self.device)
        if holder and self.take_over(holder):
            return holder
        raise BeingChanged(f"{self.device} is {describe_lock(holder)}", hint=way_out(holder))

    def _require_lines(self) -> None:
        """Refuse names that a switch has reported and that would be commands of their own."""
        for line in (line for step in self.fix.apply if isinstance(step, ConfigStep) for line in step.lines):
            if not is_one_line(line):
                raise Refused(f"{self.device} cannot be changed: {line!r} is not a line of a switch's configuration")

    async def _unlock(self) -> None:
        with self._in_doubt():
            await self._insist(UNLOCK)

    async def _step(self, step: Step) -> None:
        assert isinstance(step, ConfigStep), "a switch has no shell"
        await self.accept(" ; ".join(["configure terminal", *lines_to_enter(step.lines)]))

    async def _roll_back(
        self, checkpoint: str, error: BaseException | None, *, save: bool = False, unlock: bool = True
    ) -> None:
        """Restore a checkpoint and remove it; with `save`, also in the startup configuration."""
        try:
            if checkpoint:
                await self._restore(checkpoint, error, save=save)
            for name in dict.fromkeys((checkpoint, CHANGING if unlock else "")):
                if name:
                    await self._insist(f"no checkpoint {name}")
        except DeviceError as lost:
            if isinstance(lost, NotUndone):
                raise
            raise NotUndone(
                {self.device: lost.message}, rollback_command(checkpoint) if checkpoint else UNLOCK
            ) from error

    async def _restore(self, checkpoint: str, error: BaseException | None, *, save: bool) -> None:
        command = rollback_command(checkpoint)
        output = await self._insist(command, ROLLBACK_SECONDS)
        missing = MISSING in _refusal(output)  # nothing had been changed yet
        if not missing and not ROLLED_BACK.search(output.text):
            raise NotUndone({self.device: _refusal(output) or output.trouble}, command) from error
        if save and (refusal := _refusal(output := await self._insist(SAVE, ROLLBACK_SECONDS)) or output.failure):
            raise NotUndone({self.device: refusal}, SAVE) from error

    async def accept(self, command: str, seconds: float = STEP_SECONDS) -> None:
        """Run a command; raise NotChanged if the switch refuses it."""
        _require_accepted(self.device, command, await self._ask(command, seconds))

    async def _insist(self, command: str, seconds: float = STEP_SECONDS) -> Output:
        """Run a command that has the same effect twice; again, over a new connection, if the connection breaks."""
        try:
            return await self._ask(command, seconds)
        except DeviceError:
            return await self._ask(command, seconds)

    async def _ask(self, command: str, seconds: float = STEP_SECONDS) -> Output:
        return await _ask(self.fleet, self.device, command, seconds)


async def read_running(fleet: Fleet, device: str) -> tuple[Holder | None, ConfigSection]:
    """Return who holds the lock of a switch, if anybody, and its running configuration."""
    holder = await _read_holder(fleet, device)
    return holder, parse_lines(await _read_configuration(fleet, device, "running-config"))


async def _read_configuration(fleet: Fleet, device: str, which: str) -> list[str]:
    """Return the lines of a configuration without its headings, which contain times and differ in a checkpoint."""
    output = await _ask(fleet, device, f"show {which}", ROLLBACK_SECONDS)
    # A switch that has never saved its configuration refuses to show it.
    if output.failure or (output.exit != 0 and which != "startup-config"):
        raise NotChanged(f"{device} cannot be changed: {output.trouble} (at: show {which})")
    return [line.rstrip() for line in output.text.splitlines() if line.strip() and not line.startswith(COMMENTS)]


async def _read_holder(fleet: Fleet, device: str) -> Holder | None:
    output = await _ask(fleet, device, str(checkpoints.PROBE.command), STEP_SECONDS)
    try:
        return checkpoints.parse(output.text).holder
    except ParseError:
        return None


async def _ask(fleet: Fleet, device: str, command: str, seconds: float) -> Output:
    return await fleet.ask(device, Command(key=_key(command), script=command, timeout=seconds))


def _require_accepted(device: str, command: str, output: Output) -> None:
    if refusal := _refusal(output) or output.failure:
        raise NotChanged(f"{device} cannot be changed: {refusal} (at: {command})")


def _refusal(output: Output) -> str:
    return refusal_within(output.text) or (output.complaint if output.exit != 0 else "")


def _key(command: str) -> str:
    """Return the name under which the output is recorded."""
    return re.sub(r"[^a-z]+", "_", command.lower())[:24].strip("_")
