"""Keeps what devices said, in the form that replay reads: one folder per device, one file per output, one index.

`DEVICE/index.jsonl` has a line per command (key, command, exit, times, standard error, file) in the order they ran, or
a line with the error when the device could not be reached; `DEVICE/KEY.N.out` is the standard output of the N-th time
KEY was asked.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Self

from railbed.errors import DeviceError, UsageError
from railbed.model.output import Output
from railbed.transport.base import Command, Reach, Target, Transport
from railbed.transport.scrub import scrub

INDEX = "index.jsonl"


class Recorder:
    """Writes a recording; closing it closes the index of every device."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times: Counter[tuple[str, str]] = Counter()
        self._indexes: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for index in self._indexes.values():
            index.close()

    def keep(self, output: Output) -> None:
        """Keep one output."""
        self._times[output.device, output.key] += 1
        file = f"{output.key}.{self._times[output.device, output.key]}.out"
        line = {
            "key": output.key,
            "command": output.command,
            "exit": output.exit,
            "sent": output.sent,
            "received": output.received,
            "truncated": output.truncated,
            "failure": output.failure,
            "stderr": scrub(output.stderr).decode("utf-8", "replace"),
            "stdout": file,
        }
        index = self._index(output.device)
        (self._folder / output.device / file).write_bytes(scrub(output.stdout))
        index.write(json.dumps(line).encode() + b"\n")

    def keep_error(self, device: str, error: str, message: str, hint: str = "") -> None:
        """Keep why a device could not be reached, or not to the end."""
        line = {"error": error, "message": message, "hint": hint}
        self._index(device).write(json.dumps(line).encode() + b"\n")

    def _index(self, device: str) -> BinaryIO:
        """Return the index of a device; unbuffered, so that a crash loses no line."""
        if device not in self._indexes:
            folder = self._folder / device
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._indexes[device] = (folder / INDEX).open("ab", buffering=0)
            except OSError as error:
                raise UsageError(f"cannot record to {self._folder}: {error.strerror}") from error
        return self._indexes[device]


def recorded(reach: Reach, *recorders: Recorder) -> Reach:
    """Return a reach that also keeps everything it hears."""

    @asynccontextmanager
    async def reach_and_record(target: Target) -> AsyncIterator[Transport]:
        entered = False
        try:
            async with reach(target) as transport:
                entered = True
                yield _RecordingTransport(target.name, transport, recorders)
        except DeviceError as error:
            if not entered:
                for recorder in recorders:
                    recorder.keep_error(target.name, type(error).__name__, error.message, error.hint)
            raise
        except asyncio.CancelledError:
            if not entered:
                for recorder in recorders:
                    recorder.keep_error(target.name, "Unreachable", "no answer")
            raise

    return reach_and_record


class _RecordingTransport:
    def __init__(self, device: str, transport: Transport, recorders: Sequence[Recorder]) -> None:
        self._device = device
        self._transport = transport
        self._recorders = recorders

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        done = 0
        message = "stopped answering"
        try:
            async with aclosing(self._transport.run(commands)) as outputs:
                async for output in outputs:
                    for recorder in self._recorders:
                        recorder.keep(output)
                    done += 1
                    yield output
        except DeviceError as error:
            message = error.message
            raise
        finally:
            if done < len(commands):
                for recorder in self._recorders:
                    recorder.keep_error(self._device, "Unreachable", message)
