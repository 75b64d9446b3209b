"""Runs a program of `worker/results` on a node, from this version of railbed, and reads its messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from railbed.errors import (
    CheckpointDamaged,
    DataError,
    DeviceError,
    ModelError,
    RailbedError,
    ToolMissing,
    Unreachable,
    UsageError,
)
from railbed.fleet import Fleet
from railbed.launch.files.ship import ARCHIVE, module_command, own_code, ship
from railbed.launch.protocol import LINE_LIMIT, Message, decode, encode
from railbed.model.cluster import Cluster
from railbed.transport.base import Program

START_SECONDS = 300.0
"""Loading torch from a slow disk takes a minute; nothing is sent until then."""
SILENCE_SECONDS = 60.0
"""Afterwards a program sends a heartbeat every second."""
MODELS = "models"
"""Folder below railbed's on a node with models that were copied there."""
ENDING_SECONDS = 5.0
TAIL_BYTES = 1 << 16
REFUSALS: Mapping[str, type[RailbedError]] = {
    kind.__name__: kind for kind in (CheckpointDamaged, DataError, DeviceError, ModelError, ToolMissing, UsageError)
}


@dataclass(frozen=True, slots=True)
class Place:
    """A node with railbed's folder on it, which has this version of railbed."""

    node: str
    interpreter: Sequence[str]
    """The words that start Python there."""
    base: str
    """railbed's folder there."""
    code: str

    def command(self, module: str) -> str:
        """Return the command that runs a module of `worker/results` there."""
        return module_command(self.interpreter, self.code, f"railbed.train.worker.results.{module}", [])


async def prepare(cluster: Cluster, fleet: Fleet, node: str) -> Place:
    """Copy this version of railbed to a node, unless it is there."""
    code, interpreter = own_code(), cluster.interpreter_of(node)
    shipped = await ship(fleet, {node: interpreter}, cluster.training.workdir, [code])
    if node in shipped.failed:
        raise shipped.failed[node]
    base = shipped.bases[node]
    return Place(node, interpreter, base, f"{base}/{code.name}/{ARCHIVE}")


async def messages_of(
    fleet: Fleet, place: Place, module: str, request: Mapping[str, Any]
) -> AsyncGenerator[Message, None]:
    """Run a program with a request and yield its messages, up to `done`; raise its refusal."""
    async with fleet.open(place.node, place.command(module)) as program:
        await program.write(encode({**request, "models": f"{place.base}/{MODELS}"}))
        async with aclosing(_lines(program, place)) as lines:
            async for line in lines:
                message = decode(line) or {}
                match message.get("kind"):
                    case "refused":
                        raise _refusal(message)
                    case "done":
                        yield message
                        return
                    case "alive" | None:
                        pass
                    case _:
                        yield message


async def _lines(program: Program, place: Place) -> AsyncGenerator[bytes, None]:
    tail = bytearray()
    # Read all the while: a program whose standard error nobody reads stops when the pipe is full.
    complaining = asyncio.create_task(_read_tail(program, tail))
    buffer, patience = b"", START_SECONDS
    try:
        while piece := await _read(program, place, patience):
            patience = SILENCE_SECONDS
            *lines, buffer = (buffer + piece).split(b"\n")
            if len(buffer) > LINE_LIMIT:
                raise DeviceError(f"{place.node} sent something other than messages")
            for line in lines:
                yield line
        await asyncio.wait({complaining}, timeout=ENDING_SECONDS)
    finally:
        complaining.cancel()
    complaints = tail.decode("utf-8", "replace").strip().splitlines()
    raise DeviceError(
        f"the program on {place.node} ended early: {complaints[-1][:300] if complaints else 'the connection ended'}",
        hint=f"it was started with {' '.join(place.interpreter)} (`python` of the node in the cluster file)",
    )


async def _read(program: Program, place: Place, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await program.read(1)
    except TimeoutError:
        raise Unreachable(f"{place.node} sent no message for {seconds:g} s") from None


async def _read_tail(program: Program, tail: bytearray) -> None:
    while piece := await program.read(2):
        tail += piece
        del tail[:-TAIL_BYTES]


def _refusal(message: Message) -> RailbedError:
    kind = REFUSALS.get(str(message.get("error")), DeviceError)
    return kind(str(message.get("message")), hint=str(message.get("hint") or ""))
