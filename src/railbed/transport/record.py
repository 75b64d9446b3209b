"""Records what devices print, in the form that replay reads: one folder per device, one file per output, one index.

`DEVICE/index.jsonl` has a line per command (key, command, exit, times, standard error, file) in the order they ran, or
a line with the error when the device could not be reached; `DEVICE/KEY.N.out` is the standard output of the N-th
command with that KEY. A recording that is written by hand may have an output in its line, as `text`, in place of the
name of a file.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Self

from railbed.errors import DeviceError, UsageError, os_reason
from railbed.model.private import for_us_alone, scrub
from railbed.model.reading import Output
from railbed.transport.base import Command, Connector, Program, Target, Transport

INDEX = "index.jsonl"
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class OutputRecorder:
    """Writes a recording. No file stays open between two writes: a fleet has more devices than a process has files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times: Counter[tuple[str, str]] = Counter()
        self._created: dict[str, str] = {}
        """Folders by device, as text: joining paths would be a tenth of the work for each of thousands of outputs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def store(self, output: Output) -> None:
        """Record one output."""
        self._times[output.device, output.key] += 1
        file = f"{output.key}.{self._times[output.device, output.key]}.out"
        line = {
            "key": output.key,
            "command": _scrub_text(output.command),
            "exit": output.exit,
            "sent": output.sent,
            "received": output.received,
            "truncated": output.truncated,
            "failure": output.failure,
            "stderr": scrub(output.stderr).decode("utf-8", "replace"),
            "stdout": file,
        }
        with self._folder_of(output.device) as folder:
            with open(f"{folder}/{file}", "wb", opener=for_us_alone) as raw:
                raw.write(scrub(output.stdout))
            _append(f"{folder}/{INDEX}", line)

    def store_error(self, device: str, error: str, message: str, hint: str = "") -> None:
        """Record why a device could not be reached, or stopped answering."""
        with self._folder_of(device) as folder:
            _append(f"{folder}/{INDEX}", {"error": error, "message": _scrub_text(message), "hint": _scrub_text(hint)})

    @contextmanager
    def _folder_of(self, device: str) -> Iterator[str]:
        """Yield the path of a device's folder, and turn a failure to write there into a sentence for the user."""
        try:
            yield self._created.get(device) or self._create(device)
        except OSError as error:
            raise UsageError(
                f"cannot record to {self._folder}: {os_reason(error)}",
                hint="free some disk space, or use a folder that you can write to",
            ) from error

    def _create(self, device: str) -> str:
        folder = self._folder / device
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        self._created[device] = str(folder)
        return self._created[device]


def _append(index: str, line: Mapping[str, object]) -> None:
    # Text that is not valid Unicode (such as a file name in an error) could not be read back.
    text = _ENCODER.encode(line).encode("utf-8", "replace")
    with open(index, "ab", opener=for_us_alone) as file:
        file.write(text + b"\n")


@lru_cache(maxsize=256)  # the same commands go to all nodes
def _scrub_text(text: str) -> str:
    return scrub(text.encode("utf-8", "replace")).decode()


def recording_connector(connect: Connector, *recorders: OutputRecorder) -> Connector:
    """Return a connector that also records everything that devices print."""

    @asynccontextmanager
    async def connect_and_record(target: Target) -> AsyncIterator[Transport]:
        entered = False
        try:
            async with connect(target) as transport:
                entered = True
                yield _RecordingTransport(target.name, transport, recorders)
        except DeviceError as error:
            if not entered:
                for recorder in recorders:
                    recorder.store_error(target.name, type(error).__name__, error.message, error.hint)
            raise
        except asyncio.CancelledError:
            if not entered:
                for recorder in recorders:
                    recorder.store_error(target.name, "Unreachable", "no answer")
            raise

    return connect_and_record


class _RecordingTransport:
    def __init__(self, device: str, transport: Transport, recorders: Sequence[OutputRecorder]) -> None:
        self._device = device
        self._transport = transport
        self._recorders = recorders

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Start a program; its output is not recorded."""
        return self._transport.open(command)

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        done = 0
        message = "stopped answering"
        try:
            async with aclosing(self._transport.run(commands)) as outputs:
                async for output in outputs:
                    for recorder in self._recorders if commands[done].recorded else ():
                        recorder.store(output)
                    done += 1
                    yield output
        except DeviceError as error:
            message = error.message
            raise
        finally:
            if not all(command.endless or not command.recorded for command in commands[done:]):
                for recorder in self._recorders:
                    recorder.store_error(self._device, "Unreachable", message)
