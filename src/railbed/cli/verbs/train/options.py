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
    int, typer.Option("--min-nodes", metavar="N", min=1, help="Continue as long as this many nodes are left.")
]
TransportOption = Annotated[
    Literal["auto", "nccl", "mpi", "gloo"], typer.Option("--transport", help="What carries the gradients.")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Continue a run (name, folder or newest) from its last intact checkpoint, on its cluster.",
    ),
]
FromStartOption = Annotated[
    bool, typer.Option("--from-start", help="With --resume: restart the run at step 1 and ignore its checkpoints.")
]
EnvironmentOption = Annotated[
    bool, typer.Option("--show-env", help="Print the network settings of each node's ranks, with reasons, and exit.")
]
ShowDataOption = Annotated[
    int,
    typer.Option(
        "--show-data",
        metavar="N",
        min=0,
        max=1000,
        help="Print the first N sequences as the model will get them, with the trained tokens marked, and exit.",
    ),
]
ListOption = Annotated[bool, typer.Option("--list", help="List the recipes and exit.")]
UncheckedOption = Annotated[bool, typer.Option("--no-check", help="Do not check the cluster first.")]
SampleOption = Annotated[
    float,
    typer.Option(
        "--sample",
        metavar="SECONDS",
        min=0.0,
        max=60.0,
        help="How often the counters of all devices are sampled: 0.1 to 60 s, or 0 to sample nothing.",
    ),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Serve the live page of the run on this machine, and print its address.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Continue in the background; returns once the cluster has passed its check.")
]
AttachOption = Annotated[
    str | None,
    typer.Option("--attach", metavar="RUN", help="Show a run: a name, a folder, or newest."),
]
StopOption = Annotated[
    str | None,
    typer.Option("--stop", metavar="RUN", help="Stop a run (name, folder or newest), as Ctrl-C in its terminal would."),
]
