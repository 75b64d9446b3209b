"""A device that was recorded: a peer of ssh for demonstrations, tests and bug reports."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pydantic import BaseModel, FiniteFloat, ValidationError
from pydantic_core import from_json

from railbed import errors
from railbed.errors import DeviceError, OnlyRecorded, Unreachable, UsageError
from railbed.model.output import MAX_OUTPUT_BYTES, Output
from railbed.transport.base import Command, Program, Reach, Target, Transport
from railbed.transport.record import INDEX


def replay_from(folder: Path) -> Reach:
    """Return a reach that answers from a recording."""
    if not any(folder.glob(f"*/{INDEX}")):
        raise UsageError(f"{folder} holds no recording", hint="make one with `railbed check --record DIR`")

    def reach(target: Target) -> AbstractAsyncContextManager[Transport]:
        return _reach(folder, target)

    return reach


class _Kept(BaseModel, strict=True):
    """A line of the index: an output."""

    key: str
    command: str
    exit: int | None
    sent: FiniteFloat
    received: FiniteFloat
    truncated: bool
    failure: str
    stderr: str
    stdout: str


class _Broken(BaseModel, strict=True):
    """A line of the index: why there are no more outputs."""

    error: str
    message: str = "unreachable"
    hint: str = ""


@asynccontextmanager
async def _reach(folder: Path, target: Target) -> AsyncIterator[Transport]:
    lines = _index(folder / target.name / INDEX)
    kept = [line for line in lines if isinstance(line, _Kept)]
    broken = next((line for line in lines if isinstance(line, _Broken)), None)
    if broken and not kept:
        raise _error(broken)
    yield ReplayTransport(target.name, folder / target.name, kept, broken)


class ReplayTransport:
    """Answers each command with what was recorded under its key, in the order it was recorded."""

    def __init__(self, device: str, folder: Path, kept: Sequence[_Kept], broken: _Broken | None) -> None:
        self._device = device
        self._folder = folder
        self._kept = kept
        self._broken = broken
        self._asked: Counter[str] = Counter()

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Yield the recorded outputs."""
        for command in commands:
            recorded = [line for line in self._kept if line.key == command.key]
            nth = self._asked[command.key]
            self._asked[command.key] += 1
            if nth < len(recorded):
                yield self._output(recorded[nth])
            elif command.endless:
                await asyncio.Event().wait()  # what was ended before it said anything, waits to be ended
            elif self._broken:
                raise _error(self._broken)
            else:
                yield self._not_recorded(command)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Refuse: a recording answers, it does nothing."""
        raise OnlyRecorded(
            f"{self._device} is a recording, which cannot run {command.partition(' ')[0]}", hint="leave out --replay"
        )

    def _output(self, line: _Kept) -> Output:
        return Output(
            device=self._device,
            key=line.key,
            command=line.command,
            stdout=_stdout(self._folder, line.stdout),
            stderr=line.stderr.encode(),
            exit=line.exit,
            sent=line.sent,
            received=line.received,
            truncated=line.truncated,
            failure=line.failure,
        )

    def _not_recorded(self, command: Command) -> Output:
        return Output(
            device=self._device,
            key=command.key,
            command=command.script,
            stdout=b"",
            exit=None,
            sent=0.0,
            received=0.0,
            failure="is not in the recording",
        )


def _stdout(folder: Path, name: str) -> bytes:
    """Return a file of a device's folder; a recording may come from anyone, and must not lead out of it."""
    path = folder / name
    try:
        if "\0" in name or name != path.name or path.is_symlink():
            raise UsageError(f"the recording {folder / INDEX} is damaged: {name!r} is no file of its folder")
        with path.open("rb") as file:
            return file.read(MAX_OUTPUT_BYTES + 1)  # more is too much for any parser, and told so
    except FileNotFoundError as error:
        raise UsageError(f"the recording {folder} is damaged: {name} is missing") from error
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error


def _index(path: Path) -> list[_Kept | _Broken]:
    """Return the lines of an index; a last line without its end was torn by a crash and is passed over."""
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        lines = []
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error
    if not lines:
        raise Unreachable(f"{path.parent.name} is not in the recording {path.parent.parent}")
    values = [_json(path, number, line) for number, line in enumerate(lines, 1)]
    return [_line(path, number, value) for number, value in enumerate(values, 1)]


def _json(path: Path, number: int, line: bytes) -> object:
    try:
        return from_json(line)
    except ValueError as error:
        raise UsageError(f"the recording {path} cannot be read: line {number} is no JSON ({error})") from error


def _line(path: Path, number: int, value: object) -> _Kept | _Broken:
    kind = _Broken if isinstance(value, dict) and "error" in value else _Kept
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise UsageError(f"the recording {path} is damaged: line {number} {_mistake(value, error)}") from error


def _mistake(value: object, error: ValidationError) -> str:
    if not isinstance(value, dict):
        return "is no object"
    first = error.errors()[0]
    name = first["loc"][0]
    return f"has no {name}" if first["type"] == "missing" else f"has a wrong {name}"


def _error(line: _Broken) -> DeviceError:
    kind = getattr(errors, line.error, Unreachable)
    kind = kind if isinstance(kind, type) and issubclass(kind, DeviceError) else Unreachable
    return kind(line.message, hint=line.hint)
