"""The options of `railbed watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railbed.fleet.sample import LONGEST_SECONDS, SHORTEST_SECONDS

RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="Name of a run, its folder, or newest. [default: the newest in progress with samples, else the cluster]",
    ),
]
PageOption = Annotated[bool, typer.Option("--page", help="Serve a page with charts, and print its address.")]
AddressOption = Annotated[
    str,
    typer.Option("--address", metavar="ADDRESS", help="Where to serve it; other machines need the link with a token."),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="N", min=0, max=65535, help="Port. [default: a free one for the page, 9817 for metrics]"
    ),
]
ExporterOption = Annotated[bool, typer.Option("--exporter", help="Serve metrics for Prometheus; nothing is stored.")]
MonitoringOption = Annotated[
    Path | None,
    typer.Option(
        "--write-monitoring",
        metavar="DIR",
        help="Write the configuration of Prometheus, alert rules, a Grafana dashboard and a systemd unit, and exit.",
    ),
]
IntervalOption = Annotated[
    float | None,
    typer.Option(
        "--interval",
        metavar="SECONDS",
        min=SHORTEST_SECONDS,
        max=LONGEST_SECONDS,
        help="Sample this often; with --json, print this often. [default: 1]",
    ),
]
SecondsOption = Annotated[
    float | None, typer.Option("--for", metavar="SECONDS", min=1.0, help="End after this long. [default: Ctrl-C]")
]
