"""Options that every verb shares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from railbed.api.reach import Reach

ClusterOption = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        "-c",
        metavar="FILE",
        help="Cluster file, or `slurm` inside a Slurm job. [default: cluster.yaml here, else this machine]",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print records as JSON lines on standard output, and nothing else.")
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="DIR", help="Also save every output of every device in this folder.")
]
ReplayOption = Annotated[
    Path | None,
    typer.Option("--replay", metavar="DIR", help="Read a recording, or the folder of a run, instead of the devices."),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1.0,
        help="Time limit for each device; raising it also raises the limit of each command.",
    ),
]

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Reach):
    """Options of a verb."""

    json: bool
    verbose: bool = False
