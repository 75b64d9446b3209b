"""Recorded devices, used like SSH: for demonstrations, tests and bug reports."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pydantic import BaseModel, FiniteFloat, ValidationError
from pydantic_core import from_json

from railbed import errors
from railbed.errors import DeviceError, OnlyRecorded, Unreachable, UsageError
from railbed.model.reading import MAX_OUTPUT_BYTES, Output
from railbed.model.regular import read_regular
from railbed.transport.base import Command, Connector, Program, Target, Transport
from railbed.transport.record import INDEX

MAX_INDEX_BYTES = 1 << 30


def replay_connector(folder: Path) -> Connector:
    """Return a connector that answers from a recording."""
    if not any(folder.glob(f"*/{INDEX}")):
        raise UsageError(f"{folder} does not hold a recording", hint="make one with `railbed check --record DIR`")

    def connect(target: Target) -> AbstractAsyncContextManager[Transport]:
        return _connect(folder, target)

    return connect


class _RecordedOutput(BaseModel, strict=True):
    """A line of the index: an output."""

    key: str
    command: str
    exit: int | None
    sent: FiniteFloat
    received: FiniteFloat
    truncated: bool
    failure: str
    stderr: str
    stdout: str = ""
    """Name of the file with the output."""
    text: str | None = None
    """The output itself, in place of a file."""


class _RecordedError(BaseModel, strict=True):
    """A line of the index: why there are no more outputs."""

    error: str
    message: str = "unreachable"
    hint: str = ""


@asynccontextmanager
async def _connect(folder: Path, target: Target) -> AsyncIterator[Transport]:
    lines = _index(folder / target.name / INDEX)
    outputs = [line for line in lines if isinstance(line, _RecordedOutput)]
    error = next((line for line in lines if isinstance(line, _RecordedError)), None)
    if error and not outputs:
        raise _error(error)
    yield ReplayTransport(target.name, folder / target.name, outputs, error)


class ReplayTransport:
    """Answers each command with the outputs recorded under its key, in their order."""

    def __init__(
        self, device: str, folder: Path, outputs: Sequence[_RecordedOutput], error: _RecordedError | None
    ) -> None:
        self._device = device
        self._folder = folder
        self._outputs: dict[str, list[_RecordedOutput]] = {}
        for line in outputs:
            self._outputs.setdefault(line.key, []).append(line)
        self._error = error
        self._replayed: Counter[str] = Counter()

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Yield the recorded outputs."""
        for command in commands:
            recorded = self._outputs.get(command.key, ())
            nth = self._replayed[command.key]
            self._replayed[command.key] += 1
            if nth < len(recorded):
                yield self._output(recorded[nth])
            elif command.endless:
                await asyncio.Event().wait()  # it was stopped before it printed anything, so wait to be stopped again
            elif self._error:
                raise _error(self._error)
            else:
                yield self._not_recorded(command)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Refuse: a recording cannot run anything."""
        raise OnlyRecorded(
            f"{self._device} is a recording, which cannot run {command.partition(' ')[0]}", hint="leave out --replay"
        )

    def _output(self, line: _RecordedOutput) -> Output:
        return Output(
            device=self._device,
            key=line.key,
            command=line.command,
            stdout=_stdout(self._folder, line.stdout) if line.text is None else _encode_limited(line.text),
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
    """Read a file of a device's folder. A recording may come from anyone and must not refer to files outside it."""
    path = folder / name
    if "\0" in name or name != path.name:
        raise _not_in_folder(folder, name)
    try:
        return read_regular(path, MAX_OUTPUT_BYTES + 1)  # anything longer is refused before it is parsed
    except FileNotFoundError as error:
        raise UsageError(f"the recording {folder} is damaged: {name} is missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_in_folder(folder, name) from error
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error


def _encode_limited(text: str) -> bytes:
    return text.encode("utf-8", "replace")[: MAX_OUTPUT_BYTES + 1]


def _not_in_folder(folder: Path, name: str) -> UsageError:
    return UsageError(f"the recording {folder / INDEX} is damaged: {name!r} is not a file of its folder")


def _index(path: Path) -> list[_RecordedOutput | _RecordedError]:
    """Return the lines of an index, ignoring a last line that a crash left incomplete."""
    try:
        *lines, _ = read_regular(path, MAX_INDEX_BYTES).split(b"\n")
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
        raise UsageError(f"the recording {path} cannot be read: line {number} is not JSON ({error})") from error


def _line(path: Path, number: int, value: object) -> _RecordedOutput | _RecordedError:
    kind = _RecordedError if isinstance(value, dict) and "error" in value else _RecordedOutput
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise UsageError(f"the recording {path} is damaged: line {number} {_mistake(value, error)}") from error


def _mistake(value: object, error: ValidationError) -> str:
    if not isinstance(value, dict):
        return "is not an object"
    first = error.errors()[0]
    name = first["loc"][0]
    return f"has no {name}" if first["type"] == "missing" else f"has an invalid {name}"


def _error(line: _RecordedError) -> DeviceError:
    kind = getattr(errors, line.error, Unreachable)
    kind = kind if isinstance(kind, type) and issubclass(kind, DeviceError) else Unreachable
    return kind(line.message, hint=line.hint)
