"""The weights of a run on its nodes: which there are, newest first, and as a folder that programs can use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from railbed.errors import CheckpointDamaged, DeviceError, Unreachable, UsageError
from railbed.fleet import Fleet
from railbed.launch.files.client import file_client
from railbed.launch.files.ship import ARCHIVE, module_command, own_code, ship
from railbed.launch.messages import decode
from railbed.model.cluster import Cluster
from railbed.model.text import plural
from railbed.train.results.program import temporary_folder
from railbed.train.state.checkpoints import MANIFEST
from railbed.transport.base import Command

MODEL = "model"
"""Folder of a run on a node with the weights written at its end."""
MAKE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSource:
    """Weights on a node."""

    node: str
    step: int
    written: bool
    """They were written at the end of the run; otherwise they have to be converted from a checkpoint."""
    size: int

    @property
    def weights_size(self) -> int:
        """Return about the size of the weights; a checkpoint has two moments as well."""
        return self.size if self.written else self.size // 3

    @property
    def rank(self) -> tuple[int, bool]:
        """Sort key: the newest step first, then weights that are written already."""
        return self.step, self.written


def no_weights(cluster: Cluster, run: str, silent: Mapping[str, DeviceError], problems: list[str]) -> Exception:
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


async def weights_sources(
    cluster: Cluster, fleet: Fleet, run: str
) -> tuple[list[WeightsSource], dict[str, DeviceError]]:
    """Query all nodes for weights; the best come first."""
    silent: dict[str, DeviceError] = {}

    async def ask(node: str) -> list[WeightsSource]:
        request = {"do": "read", "workdir": cluster.training.workdir, "folder": f"runs/{run}/{node}", "name": MANIFEST}
        try:
            async with file_client(fleet, node, cluster.interpreter_of(node), request) as remote:
                texts = dict((await remote.answer("texts"))["texts"])
        except DeviceError as error:
            silent[node] = error
            return []
        return [source for name, text in texts.items() if (source := _source(node, name, str(text)))]

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
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


@asynccontextmanager
async def ready_weights(cluster: Cluster, fleet: Fleet, run: str, source: WeightsSource) -> AsyncIterator[str]:
    """Yield the weights' folder below railbed's; weights converted for this are removed afterwards."""
    node, interpreter = source.node, cluster.interpreter_of(source.node)
    code, own = own_code(), f"runs/{run}"
    if source.written:
        yield f"{own}/{node}/{MODEL}"
        return
    shipped = await ship(fleet, {node: interpreter}, cluster.training.workdir, [code], folder=own)
    if node in shipped.failed:
        raise shipped.failed[node]
    base = shipped.bases[node]
    async with temporary_folder(fleet, node, base, f"{own}/{node}") as below:
        words = [f"{base}/{own}/{node}", f"{base}/{below}"]
        make = module_command(interpreter, f"{base}/{code.name}/{ARCHIVE}", "railbed.train.worker.io.convert", words)
        output = await fleet.ask(node, Command(key="convert", script=make, timeout=MAKE_SECONDS))
        answer = decode(output.stdout.splitlines()[-1]) if output.stdout.strip() else None
        if not answer or "step" not in answer:
            complaints = output.stderr.decode("utf-8", "replace").strip().splitlines()
            why = str(answer["sentence"]) if answer and "sentence" in answer else (complaints or [output.trouble])[-1]
            raise CheckpointDamaged(f"its checkpoint could not be converted to weights: {why}")
        yield below
