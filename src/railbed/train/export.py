"""Writes the newest weights of a run to a folder here, in the form that others use.

They are fetched from the run's nodes: as written at its end, or converted from a checkpoint. A node that has them also
merges an adapter, and writes GGUF, because it has torch and the model below the adapter.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from railbed.errors import CheckpointDamaged, DeviceError
from railbed.fleet import Fleet
from railbed.launch.messages import Message
from railbed.model import events
from railbed.model.cluster import LOCAL_HOST, Cluster
from railbed.model.record import Record
from railbed.store.atomic_folder import AtomicFolder
from railbed.train.results.adapter import is_adapter
from railbed.train.results.program import Place, messages_of, prepare, receive, temporary_folder
from railbed.train.results.sources import WeightsSource, no_weights, ready_weights, weights_sources
from railbed.train.state.checkpoints import PIECE, read_sealed

PROGRAM = "publish"
NumberType = Literal["auto", "f32", "f16", "bf16", "q8_0"]
MergedType = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportForm:
    """The form that weights are exported in."""

    merge: bool = False
    """Merge the adapter into the model below it."""
    gguf: NumberType | None = None
    """Write a GGUF file, with this type of numbers."""
    dtype: MergedType | None = None
    """The type of merged weights; None: that of the model."""
    name: str = ""
    """Name of the model in a GGUF file."""

    @property
    def is_made(self) -> bool:
        """Return whether the weights have to be made from those of the run."""
        return self.merge or self.gguf is not None

    def request(self, folder: str, into: str) -> dict[str, object]:
        """Return the request for the program on the node."""
        own = {"merge": self.merge, "gguf": self.gguf, "dtype": self.dtype, "name": self.name}
        return {"folder": folder, "into": into, **own}


AS_TRAINED = ExportForm()


async def export(
    cluster: Cluster, fleet: Fleet, run: str, folder: AtomicFolder, form: ExportForm = AS_TRAINED
) -> AsyncGenerator[Record, None]:
    """Write the newest weights of a run to a new folder; `run` is its name on the nodes."""
    yield events.Progress(message="searching for the weights", waiting=list(cluster.nodes))
    sources, silent = await weights_sources(cluster, fleet, run)
    for node, error in silent.items():
        yield events.NodeLost(subject=node, message=error.message)
    problems = []
    for source in sources:
        try:
            async with aclosing(_fetch(cluster, fleet, run, source, folder, form)) as records:
                async for record in records:
                    yield record
        except (CheckpointDamaged, DeviceError) as error:
            problems.append(f"{source.node}: {error.message}")
            yield events.Notice(subject=source.node, message=error.message)
            continue
        return
    raise no_weights(cluster, run, silent, problems)


async def _fetch(  # noqa: PLR0917  (what is fetched, from where, and in which form)
    cluster: Cluster, fleet: Fleet, run: str, source: WeightsSource, folder: AtomicFolder, form: ExportForm
) -> AsyncGenerator[Record, None]:
    if not source.written:
        message = f"converting the checkpoint of step {source.step} to weights"
        yield events.Progress(subject=source.node, message=message)
    async with ready_weights(cluster, fleet, run, source) as below:
        records = (
            _make_and_receive(cluster, fleet, source.node, below, f"runs/{run}/{source.node}", folder, form)
            if form.is_made
            else receive(cluster, fleet, source.node, below, folder=folder, needed=source.weights_size)
        )
        async with aclosing(records):
            async for record in records:
                yield record
    how = "as written at its end" if source.written else "from its newest checkpoint"
    yield _finish(folder, form, run, source.node, how, finished=source.written)


async def export_folder(
    cluster: Cluster, fleet: Fleet, node: str, path: str, *, folder: AtomicFolder, form: ExportForm
) -> AsyncGenerator[Record, None]:
    """Write the model or the adapter of a folder on a node, in another form, to a new folder here."""
    yield events.Progress(subject=node, message="starting Python")
    if cluster.nodes[node].host == LOCAL_HOST:
        place = await prepare(cluster, fleet, node)
        records = _make(fleet, place, form.request(path, str(folder.partial.resolve())), [])
    else:
        records = _make_and_receive(cluster, fleet, node, path, "", folder, form)
    async with aclosing(records):
        async for record in records:
            yield record
    yield _finish(folder, form, path, node, f"from {path}", finished=True)


async def export_copy(source: Path, run: str, folder: AtomicFolder) -> AsyncGenerator[Record, None]:
    """Copy the weights of a run whose nodes stored them in its own folder."""
    yield events.Progress(message="copying the weights")
    await asyncio.to_thread(_copy, source, folder)
    yield _finish(folder, AS_TRAINED, run, "", f"as written at its end, from {source}", finished=True)


def _copy(source: Path, folder: AtomicFolder) -> None:
    folder.need_room(read_sealed(source).size)
    for path in sorted(source.iterdir()):
        with path.open("rb") as reading, folder.new_file(path.name) as writing:
            shutil.copyfileobj(reading, writing, PIECE)


async def _make_and_receive(  # noqa: PLR0917  (what is made, where, and where it goes)
    cluster: Cluster, fleet: Fleet, node: str, path: str, beside: str, folder: AtomicFolder, form: ExportForm
) -> AsyncGenerator[Record, None]:
    """Let a node make the weights, in a folder in `beside`, and fetch them; `path` may be below railbed's folder."""
    place = await prepare(cluster, fleet, node)
    path = path if path.startswith(("/", "~")) else f"{place.base}/{path}"
    async with temporary_folder(fleet, node, place.base, beside) as below:
        sizes: list[int] = []
        request = form.request(path, f"{place.base}/{below}")
        async with aclosing(_make(fleet, place, request, sizes)) as making:
            async for record in making:
                yield record
        async with aclosing(receive(cluster, fleet, node, below, folder=folder, needed=sum(sizes))) as fetching:
            async for record in fetching:
                yield record


async def _make(fleet: Fleet, place: Place, request: Message, sizes: list[int]) -> AsyncGenerator[Record, None]:
    """Run the program; yield its progress and notices, and append the number of bytes that it wrote to `sizes`."""
    async with aclosing(messages_of(fleet, place, PROGRAM, request)) as messages:
        async for message in messages:
            match message:
                case {"kind": "progress", "message": str(text)}:
                    done, total = message.get("done"), message.get("total")
                    yield events.Progress(
                        subject=place.node,
                        message=text,
                        done=done if isinstance(done, int) else None,
                        total=total if isinstance(total, int) else None,
                    )
                case {"kind": "notice", "message": str(text)}:
                    yield events.Notice(message=text)
                case {"kind": "done", "bytes": int(size)}:
                    sizes.append(size)


def _finish(
    folder: AtomicFolder, form: ExportForm, subject: str, node: str, how: str, *, finished: bool
) -> events.WeightsFetched:
    """Verify the folder, give it its name, and return what it has."""
    manifest = read_sealed(folder.partial)
    kind = _kind(folder.partial, form)
    folder.finish()
    words = {"weights": "weights", "adapter": "adapter", "merged": "merged weights", "gguf": "GGUF file"}[kind]
    step = f" of step {manifest.step}" if manifest.step else ""
    origin = how if "from /" in how else f"{how}, from {node}"
    return events.WeightsFetched(
        subject=subject,
        message=f"{words}{step}, {origin}: {folder.path}",
        folder=str(folder.path),
        node=node,
        step=manifest.step,
        bytes=manifest.size,
        finished=finished,
        form=kind,
    )


def _kind(path: Path, form: ExportForm) -> str:
    if form.gguf:
        return "gguf"
    if is_adapter(path):
        return "adapter"
    return "merged" if form.merge else "weights"
