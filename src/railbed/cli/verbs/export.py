"""railbed export"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from railbed.api.verbs.export import export
from railbed.cli.options import JsonOption, Options, TimeoutOption
from railbed.cli.run.perform import show
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.site import chosen_model, named_cluster
from railbed.model import events
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.record import Record
from railbed.model.text import printable
from railbed.train.export import MergedType, NumberType

SourceArgument = Annotated[
    str, typer.Argument(metavar="RUN|DIR", help="Training run (name, folder or newest), or the folder of a model.")
]
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write; it must be new or empty.")]
MergeOption = Annotated[
    bool, typer.Option("--merge", help="Merge the adapter of a fine-tuned model into the model below it.")
]
GgufOption = Annotated[
    bool, typer.Option("--gguf", help="Write a GGUF file for llama.cpp and Ollama; an adapter is merged.")
]
TypeOption = Annotated[
    NumberType, typer.Option("--type", help="Numbers of the GGUF file; auto: bf16 if the model has it, else f16.")
]
MergedTypeOption = Annotated[
    MergedType | None, typer.Option("--dtype", help="Type of merged weights. [default: that of the model]")
]
NodesOption = Annotated[
    Path | None,
    typer.Option("--cluster", "-c", metavar="FILE", help="Cluster file. [default: the run's; for DIR this machine]"),
]
NodeOption = Annotated[str | None, typer.Option("--node", metavar="NODE", help="Node that has the folder DIR.")]


def export_command(
    source: SourceArgument,
    folder: FolderArgument,
    merge: MergeOption = False,
    gguf: GgufOption = False,
    number_type: TypeOption = "auto",
    dtype: MergedTypeOption = None,
    cluster: NodesOption = None,
    node: NodeOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Write the weights of a training run to a folder here, in the form that others use.

    They are fetched from the run's nodes as Hugging Face's transformers loads them; a node merges an adapter and writes
    GGUF. For an unfinished run, the weights are those of its newest checkpoint. For a folder, they are made here.

    Example: railbed export newest weights
    """
    options = Options(json=as_json, timeout=timeout)
    stream = export(
        chosen_model(source),
        folder,
        named_cluster(cluster),
        merge=merge,
        gguf=gguf,
        number_type=number_type,
        dtype=dtype,
        node=node,
        reach=options,
    )
    return show(stream, JsonScreen() if as_json else ExportScreen())


class ExportScreen(Screen):
    """Progress on standard error, the result on standard output."""

    def __init__(self) -> None:
        super().__init__()
        self._fetched: events.WeightsFetched | None = None

    def show(self, record: Record) -> None:
        """Update the progress line, or print an event."""
        self.line.take(record)
        match record:
            case events.WeightsFetched():
                self._fetched = record
            case events.NodeLost() | events.Notice():
                self.line.print_line(f"{record.subject}: {record.message}" if record.subject else record.message)

    def finish(self, run: Path) -> None:  # noqa: ARG002
        """Print what was written and how to use it."""
        self.line.stop()
        if self._fetched:
            sys.stdout.write(f"{printable(self._fetched.message)}\n")
            for line in _uses(self._fetched.form, printable(self._fetched.folder)):
                sys.stdout.write(f"  {line}\n")


def _uses(form: str | None, folder: str) -> list[str]:
    """Return commands that use the folder."""
    if form == "gguf":
        return [f"llama-cli -m {folder}/model.gguf", f"ollama create NAME -f {folder}/Modelfile"]
    if form == "adapter":
        return [f"generate: railbed generate {folder}", "merge it: railbed export … --merge"]
    return [f"load it: transformers.AutoModelForCausalLM.from_pretrained({folder!r})"]
