"""Fetches a folder from a node, and has it hold a folder for what is made there and fetched."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import PurePosixPath

from railbed.errors import DeviceError, Unreachable
from railbed.fleet import Fleet
from railbed.launch.files.client import file_client
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.model.text.amount import size
from railbed.parsing.shell import quote_path
from railbed.store.atomic_folder import AtomicFolder
from railbed.transport.base import Program

REPORT_SECONDS = 1.0
START_SECONDS = 60.0
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
        async with asyncio.timeout(START_SECONDS):
            while HELD not in printed:
                piece = await holder.read(1)
                if not piece:
                    reason = (await holder.read(2)).decode("utf-8", "replace").strip() or "the connection ended"
                    raise DeviceError(f"{node} has no folder for the weights: {reason.splitlines()[-1][:300]}")
                printed = (printed + piece)[-LAST_BYTES:]
    except TimeoutError:
        raise Unreachable(f"{node} did not answer for {START_SECONDS:g} s") from None


async def _remove(holder: Program) -> None:
    async with asyncio.timeout(REMOVE_SECONDS):
        await holder.write(b"\n")
        while await holder.read(1):
            pass
