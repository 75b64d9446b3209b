"""railbed export"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from railbed.cli.background.runs import begun, cluster_of, training_run
from railbed.cli.options import JsonOption, Options, TimeoutOption
from railbed.cli.perform import perform
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.site import given_cluster
from railbed.errors import UsageError
from railbed.model import events
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.printable import printable
from railbed.model.record import Event, Record
from railbed.store.atomic_folder import AtomicFolder
from railbed.store.submitted import job_of
from railbed.train.export import MODEL, export, export_copy

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of a training run, its folder, or newest.")]
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write; it must be new or empty.")]
NodesOption = Annotated[
    Path | None, typer.Option("--cluster", "-c", metavar="FILE", help="Cluster file. [default: the run's]")
]


def export_command(
    run: RunArgument,
    folder: FolderArgument,
    cluster: NodesOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Fetch the weights of a training run from its nodes, as a folder that Hugging Face's transformers loads.

    The nodes are those of the run's cluster file. For an unfinished run, the weights are those of its newest
    checkpoint.

    Example: railbed export newest weights
    """
    source, _ = training_run(run)
    started = begun(source)
    if started.recipe.get("traffic"):
        raise UsageError(f"{source.name} is a network load: it trains no model and has no weights")
    site = (given_cluster(cluster, None) if cluster else None) or cluster_of(source)
    options = Options(json=as_json, record=None, replay=None, timeout=timeout)
    screen = JsonScreen() if as_json else ExportScreen()
    with AtomicFolder(folder) as new:
        work = partial(export, site, run=started.run, folder=new)
        own = source / MODEL
        if job_of(source) and own.is_dir():
            return perform("export", site, options, lambda _: export_copy(own, source.name, new), screen=screen)
        return perform("export", site, options, work, screen=screen)


class ExportScreen(Screen):
    """Progress on standard error, the result on standard output."""

    def __init__(self) -> None:
        super().__init__()
        self._fetched: Event | None = None

    def show(self, record: Record) -> None:
        """Update the progress line, or print an event."""
        self.line.take(record)
        match record:
            case events.WeightsFetched():
                self._fetched = record
            case events.NodeLost() | events.Notice():
                self.line.print_line(f"{record.subject}: {record.message}" if record.subject else record.message)

    def finish(self, run: Path) -> None:  # noqa: ARG002
        """Print what was fetched and how to use it."""
        self.line.stop()
        if self._fetched:
            folder = str(self._fetched.data["folder"])
            sys.stdout.write(f"{printable(self._fetched.message)}\n")
            sys.stdout.write(f"  load it: transformers.AutoModelForCausalLM.from_pretrained({printable(folder)!r})\n")
