"""A device that was recorded: a peer of ssh for demonstrations, tests and bug reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from railbed import errors
from railbed.errors import DeviceError, Unreachable, UsageError
from railbed.model.output import Output
from railbed.transport.base import Command, Reach, Target, Transport
from railbed.transport.record import INDEX


def replay_from(folder: Path) -> Reach:
    """Return a reach that answers from a recording."""
    if not any(folder.glob(f"*/{INDEX}")):
        raise UsageError(f"{folder} holds no recording", hint="make one with `railbed check --record DIR`")

    def reach(target: Target) -> AbstractAsyncContextManager[Transport]:
        return _reach(folder, target)

    return reach


@asynccontextmanager
async def _reach(folder: Path, target: Target) -> AsyncIterator[Transport]:
    lines = _index(folder / target.name / INDEX)
    if lines and all("error" in line for line in lines):
        raise _error(lines[0])
    yield ReplayTransport(target.name, folder / target.name, lines)


class ReplayTransport:
    """Answers each command with what was recorded under its key, in the order it was recorded."""

    def __init__(self, device: str, folder: Path, lines: Sequence[dict[str, Any]]) -> None:
        self._device = device
        self._folder = folder
        self._outputs = [line for line in lines if "error" not in line]
        self._broken = next((line for line in lines if "error" in line), None)
        self._asked: Counter[str] = Counter()

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Yield the recorded outputs."""
        for command in commands:
            recorded = [line for line in self._outputs if line["key"] == command.key]
            nth = self._asked[command.key]
            self._asked[command.key] += 1
            if nth < len(recorded):
                yield self._output(recorded[nth])
            elif self._broken:
                raise _error(self._broken)
            else:
                yield self._not_recorded(command)

    def _output(self, line: dict[str, Any]) -> Output:
        try:
            stdout = (self._folder / Path(line["stdout"]).name).read_bytes()
            return Output(
                device=self._device,
                stdout=stdout,
                stderr=line["stderr"].encode(),
                **{key: line[key] for key in ("key", "command", "exit", "sent", "received", "truncated", "failure")},
            )
        except (KeyError, OSError, AttributeError, TypeError) as error:
            raise UsageError(f"the recording {self._folder} is damaged: {error}") from error

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


def _index(path: Path) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError as error:
        raise Unreachable(f"{path.parent.name} is not in the recording {path.parent.parent}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"the recording {path} cannot be read: {error}") from error
    if not all(isinstance(line, dict) for line in lines):
        raise UsageError(f"the recording {path} is damaged: a line is no object")
    return lines


def _error(line: dict[str, Any]) -> DeviceError:
    kind = getattr(errors, str(line.get("error")), Unreachable)
    kind = kind if isinstance(kind, type) and issubclass(kind, DeviceError) else Unreachable
    return kind(str(line.get("message", "unreachable")), hint=str(line.get("hint", "")))
