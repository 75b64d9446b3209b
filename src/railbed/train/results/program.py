"""Runs a program of `worker/results` on a node, from this version of railbed, and reads its messages.

What it makes is in a folder that the node holds until it has been fetched.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
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
from railbed.launch.files.client import file_client
from railbed.launch.files.ship import ARCHIVE, module_command, own_code, ship
from railbed.launch.messages import LINE_LIMIT, Message, decode, encode
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.model.text import size
from railbed.parsing.text import quote_path
from railbed.store.atomic_folder import AtomicFolder
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


REPORT_SECONDS = 1.0
HOLD_START_SECONDS = 60.0
REMOVE_SECONDS = 120.0
"""Removing tens of gigabytes takes a slow disk some time."""
HELD = b"railbed holds the folder"
# The name changes before the removal: what still writes there cannot create the folder again.
HOLD = (
    "umask 077; trap '' HUP TERM; mkdir -p {path} || exit; echo " + HELD.decode() + "; read -r _; "
    "mv {path} {path}.old && rm -rf {path}.old"
)
LAST_BYTES = 4096


async def receive(
    cluster: Cluster, fleet: Fleet, node: str, below: str, *, folder: AtomicFolder, needed: int
) -> AsyncGenerator[Record, None]:
    """Receive the files of a folder below railbed's on a node; `needed` is about their size in bytes."""
    request = {"do": "send", "workdir": cluster.training.workdir, "folder": below}
    folder.clear()
    folder.need_room(needed)
    received, reported = 0, 0.0
    async with file_client(fleet, node, cluster.interpreter_of(node), request) as remote:
        while (message := await remote.answer("file", "done"))["kind"] == "file":
            with folder.new_file(str(message["name"])) as file:
                async for piece in remote.raw(int(message["size"])):
                    file.write(piece)
                    received += len(piece)
                    if time.monotonic() - reported > REPORT_SECONDS:
                        reported = time.monotonic()
                        yield events.Progress(
                            subject=node,
                            message="fetching the weights",
                            detail=f"{size(received)} of {message['name']}",
                        )


@asynccontextmanager
async def temporary_folder(fleet: Fleet, node: str, base: str, beside: str) -> AsyncIterator[str]:
    """Yield a path below `base` on a node for a new folder, in a folder in `beside` that the node removes.

    It does so as soon as the context or the connection ends: a railbed that is killed leaves nothing there.
    """
    name = PurePosixPath(beside, f"temporary-{secrets.token_hex(8)}")
    script = HOLD.format(path=quote_path(f"{base}/{name}"))
    async with fleet.open(node, f"exec sh -c {shlex.quote(script)}") as holder:
        await _read_mark(holder, node)
        try:
            yield f"{name}/weights"
        finally:
            with suppress(DeviceError, TimeoutError):
                await _remove(holder)


async def _read_mark(holder: Program, node: str) -> None:
    """Wait until the folder exists; raise DeviceError with the reason if it cannot."""
    printed = b""
    try:
        async with asyncio.timeout(HOLD_START_SECONDS):
            while HELD not in printed:
                piece = await holder.read(1)
                if not piece:
                    reason = (await holder.read(2)).decode("utf-8", "replace").strip() or "the connection ended"
                    raise DeviceError(f"{node} has no folder for the weights: {reason.splitlines()[-1][:300]}")
                printed = (printed + piece)[-LAST_BYTES:]
    except TimeoutError:
        raise Unreachable(f"{node} did not answer for {HOLD_START_SECONDS:g} s") from None


async def _remove(holder: Program) -> None:
    async with asyncio.timeout(REMOVE_SECONDS):
        await holder.write(b"\n")
        while await holder.read(1):
            pass
