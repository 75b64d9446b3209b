"""The options of `railbed train`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe by name, or a file.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe; repeatable.")
]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", metavar="N", min=1, help="Ranks per node. [default: one per GPU, or one]")
]
MinimumOption = Annotated[
    int, typer.Option("--min-nodes", metavar="N", min=1, help="Go on as long as so many nodes are left.")
]
TransportOption = Annotated[
    Literal["auto", "nccl", "mpi", "gloo"], typer.Option("--transport", help="What carries the gradients.")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Continue a run, by name or folder, from its last good checkpoint, on its cluster.",
    ),
]
FromStartOption = Annotated[
    bool, typer.Option("--from-start", help="With --resume: start the run again at step 1, whatever was saved.")
]
EnvironmentOption = Annotated[
    bool, typer.Option("--show-env", help="Print what each node's ranks are told of the fabric, and why; end.")
]
ListOption = Annotated[bool, typer.Option("--list", help="List the recipes and end.")]
UncheckedOption = Annotated[bool, typer.Option("--no-check", help="Do not check the cluster first.")]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Go on in the background, without the terminal; returns once the run began.")
]
AttachOption = Annotated[
    str | None,
    typer.Option("--attach", metavar="RUN", help="Show a run that goes on, by name or folder, or the `newest`."),
]
StopOption = Annotated[
    str | None, typer.Option("--stop", metavar="RUN", help="End a run that goes on, as Ctrl-C in its terminal would.")
]
