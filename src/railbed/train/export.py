"""Fetches the newest weights of a run from its nodes: as written at its end, or converted from a checkpoint."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from railbed.errors import CheckpointDamaged, DeviceError, Unreachable, UsageError
from railbed.fleet import Fleet
from railbed.launch.files.client import file_client
from railbed.launch.files.ship import ARCHIVE, module_command, own_code, ship
from railbed.launch.protocol import decode
from railbed.model import events
from railbed.model.amount import plural, size
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.parsing.shell import quote_path
from railbed.store.atomic_folder import AtomicFolder
from railbed.train.state.checkpoints import MANIFEST, PIECE, sealed
from railbed.transport.base import Command

MODEL, SAVED = "model", "saved"
"""Folders of a run on a node: the weights written at its end, and those converted from a checkpoint."""
MAKE_SECONDS = 600.0
REPORT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSource:
    """Weights on a node."""

    node: str
    step: int
    written: bool
    """They were written at the end of the run; otherwise they have to be converted from a checkpoint."""
    size: int

    @property
    def rank(self) -> tuple[int, bool]:
        """Sort key: the newest step first, then weights that are written already."""
        return self.step, self.written


async def export(cluster: Cluster, fleet: Fleet, run: str, folder: AtomicFolder) -> AsyncGenerator[Record, None]:
    """Fetch the newest weights of a run into a new folder; `run` is its name on the nodes."""
    yield events.Progress(message="searching for the weights", waiting=list(cluster.nodes))
    sources, silent = await _sources(cluster, fleet, run)
    for node, error in silent.items():
        yield events.NodeLost(subject=node, message=error.message)
    problems = []
    for source in sources:
        try:
            async with aclosing(_fetch(cluster, fleet, run, source, folder)) as records:
                async for record in records:
                    yield record
        except (CheckpointDamaged, DeviceError) as error:
            problems.append(f"{source.node}: {error.message}")
            yield events.Notice(subject=source.node, message=error.message)
            continue
        return
    raise _nothing(cluster, run, silent, problems)


async def export_copy(source: Path, run: str, folder: AtomicFolder) -> AsyncGenerator[Record, None]:
    """Copy the weights of a run whose nodes stored them in its own folder."""
    yield events.Progress(message="copying the weights")
    await asyncio.to_thread(_copy, source, folder)
    manifest = await asyncio.to_thread(sealed, folder.partial)
    folder.finish()
    yield events.WeightsFetched(
        subject=run,
        message=f"weights of step {manifest.step}, as written at its end, from {source}: {folder.path}",
        folder=str(folder.path),
        node="",
        step=manifest.step,
        bytes=manifest.size,
        finished=True,
    )


def _copy(source: Path, folder: AtomicFolder) -> None:
    folder.need_room(sealed(source).size)
    for path in sorted(source.iterdir()):
        with path.open("rb") as reading, folder.new_file(path.name) as writing:
            shutil.copyfileobj(reading, writing, PIECE)


def _nothing(cluster: Cluster, run: str, silent: Mapping[str, DeviceError], problems: list[str]) -> Exception:
    """Return the error that explains why there are no weights."""
    if problems:
        return Unreachable(f"the weights of {run} could not be fetched: {'; '.join(problems)}")
    if silent:
        node, error = next(iter(silent.items()))
        others = f" (and {plural(len(silent) - 1, 'more node')})" if len(silent) > 1 else ""
        return Unreachable(
            f"no weights of {run} were found, and {node} does not answer{others}: {error.message}", hint=error.hint
        )
    where = f"none of its {len(cluster.nodes)} nodes has" if len(cluster.nodes) > 1 else "its node does not have"
    return UsageError(
        f"{run} has no weights yet: {where} a checkpoint of it in {cluster.training.workdir}",
        hint="they exist after its first checkpoint; is this the right cluster, or were its files removed?",
    )


async def _sources(cluster: Cluster, fleet: Fleet, run: str) -> tuple[list[WeightsSource], dict[str, DeviceError]]:
    """Query all nodes for weights; the best come first."""
    silent: dict[str, DeviceError] = {}

    async def ask(node: str) -> list[WeightsSource]:
        request = {"do": "read", "workdir": cluster.training.workdir, "folder": f"runs/{run}/{node}", "name": MANIFEST}
        try:
            async with file_client(fleet, node, cluster.interpreter_of(node), request) as remote:
                texts = (await remote.answer("texts"))["texts"]
        except DeviceError as error:
            silent[node] = error
            return []
        return [source for name, text in texts.items() if (source := _source(node, name, text))]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(node)) for node in cluster.nodes]
    sources = [source for task in tasks for source in task.result()]
    return sorted(sources, key=lambda source: source.rank, reverse=True), silent


def _source(node: str, name: str, text: str) -> WeightsSource | None:
    """Read a manifest; None if it is invalid or belongs to something else."""
    path = PurePosixPath(name)
    written = path == PurePosixPath(MODEL, MANIFEST)
    if not written and (len(path.parts) != 3 or path.parts[0] != "checkpoints" or path.parts[1].startswith(".")):
        return None
    try:
        content = json.loads(text)
        size = sum(int(size) for _, size in content["files"].values())
        return WeightsSource(node=node, step=int(content["step"]), written=written, size=size)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


async def _fetch(
    cluster: Cluster, fleet: Fleet, run: str, source: WeightsSource, folder: AtomicFolder
) -> AsyncGenerator[Record, None]:
    if not source.written:
        message = f"converting the checkpoint of step {source.step} to weights"
        yield events.Progress(subject=source.node, message=message)
    async with _ready(cluster, fleet, run, source) as below:
        place = f"runs/{run}/{source.node}/{below}"
        async with aclosing(_receive(cluster, fleet, source, place, folder)) as records:
            async for record in records:
                yield record
    manifest = sealed(folder.partial)
    folder.finish()
    how = "as written at its end" if source.written else "from its newest checkpoint"
    yield events.WeightsFetched(
        subject=run,
        message=f"weights of step {manifest.step}, {how}, from {source.node}: {folder.path}",
        folder=str(folder.path),
        node=source.node,
        step=manifest.step,
        bytes=manifest.size,
        finished=source.written,
    )


async def _receive(
    cluster: Cluster, fleet: Fleet, source: WeightsSource, below: str, folder: AtomicFolder
) -> AsyncGenerator[Record, None]:
    """Receive the files of a folder on a node."""
    request = {"do": "send", "workdir": cluster.training.workdir, "folder": below}
    folder.clear()
    folder.need_room(source.size if source.written else source.size // 3)  # a checkpoint has two moments as well
    received, reported = 0, 0.0
    async with file_client(fleet, source.node, cluster.interpreter_of(source.node), request) as remote:
        while (message := await remote.answer("file", "done"))["kind"] == "file":
            with folder.new_file(str(message["name"])) as file:
                async for piece in remote.raw(int(message["size"])):
                    file.write(piece)
                    received += len(piece)
                    if time.monotonic() - reported > REPORT_SECONDS:
                        reported = time.monotonic()
                        yield events.Progress(
                            subject=source.node,
                            message="fetching the weights",
                            detail=f"{size(received)} of {message['name']}",
                        )


@asynccontextmanager
async def _ready(cluster: Cluster, fleet: Fleet, run: str, source: WeightsSource) -> AsyncIterator[str]:
    """Yield the weights' folder below the run's; weights converted for this are removed afterwards."""
    if source.written:
        yield MODEL
        return
    node, interpreter = source.node, cluster.interpreter_of(source.node)
    code, own = own_code(), f"runs/{run}"
    shipped = await ship(fleet, {node: interpreter}, cluster.training.workdir, [code], folder=own)
    if node in shipped.failed:
        raise shipped.failed[node]
    folder = f"{shipped.bases[node]}/{own}/{node}"
    make = module_command(
        interpreter, f"{shipped.bases[node]}/{code.name}/{ARCHIVE}", "railbed.train.worker.io.convert", [folder]
    )
    try:
        output = await fleet.ask(node, Command(key="convert", script=make, timeout=MAKE_SECONDS))
        answer = decode(output.stdout.splitlines()[-1]) if output.stdout.strip() else None
        if not answer or "step" not in answer:
            complaints = output.stderr.decode("utf-8", "replace").strip().splitlines()
            why = str(answer["sentence"]) if answer and "sentence" in answer else (complaints or [output.trouble])[-1]
            raise CheckpointDamaged(f"its checkpoint could not be converted to weights: {why}")
        yield SAVED
    finally:
        remove = Command(key="clear", script=f"rm -rf {quote_path(f'{folder}/{SAVED}')}")
        async with aclosing(fleet.run({node: (remove,)})) as answers:
            async for _ in answers:
                pass
