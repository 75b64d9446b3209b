"""Fetches a folder from a node, and removes it there."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from railbed.fleet import Fleet
from railbed.launch.files.client import file_client
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.model.text.amount import size
from railbed.parsing.shell import quote_path
from railbed.store.atomic_folder import AtomicFolder
from railbed.transport.base import Command

REPORT_SECONDS = 1.0


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


async def remove_there(fleet: Fleet, node: str, path: str) -> None:
    """Remove a folder on a node; if the node does not answer, it stays."""
    remove = Command(key="clear", script=f"rm -rf {quote_path(path)}")
    async with aclosing(fleet.run({node: (remove,)})) as answers:
        async for _ in answers:
            pass
