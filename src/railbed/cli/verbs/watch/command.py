"""railbed watch: the command and its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from railbed.api.kinds import WATCHABLE
from railbed.api.site import built_in_local, default_cluster
from railbed.cli.chosen import chosen_run
from railbed.cli.options import ClusterOption, JsonOption, TimeoutOption
from railbed.cli.site import given_cluster
from railbed.cli.verbs.watch.view import LOCAL, PageRequest, own_token
from railbed.errors import UsageError
from railbed.fleet.sample import LONGEST_SECONDS, SHORTEST_SECONDS
from railbed.model.limits import DEVICE_SECONDS
from railbed.present.wording import DEFAULT_CLUSTER
from railbed.store import list_runs, runs_folder

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


SWITCH_SECONDS = 5.0
SERIES = "series"
"""Folder of a run with samples."""


def watch_command(
    run: RunArgument = None,
    page: PageOption = False,
    address: AddressOption = LOCAL,
    port: PortOption = None,
    exporter: ExporterOption = False,
    monitoring: MonitoringOption = None,
    interval: IntervalOption = None,
    seconds: SecondsOption = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Show a run, in progress or of last week, or the cluster now, on one time axis: training, network, switches.

    Example: railbed watch --page
    """
    wanted = {"RUN": run is not None, "--page": page, "--exporter": exporter}
    wanted |= {"--write-monitoring": monitoring is not None, "--for": seconds is not None}
    _refuse_mixtures(wanted, address=address, port=port)
    if monitoring is not None:
        return _write_monitoring(monitoring, cluster, address, port, interval, as_json=as_json)
    if exporter:
        return _export(cluster, address, port, interval, timeout=timeout, as_json=as_json)
    from railbed.cli.verbs.watch.view import ViewRequest, view_run  # numpy is slow to load

    where = PageRequest(address, port or 0, own_token()) if page else None
    request = ViewRequest(page=where, json=as_json, interval=interval, seconds=seconds)
    folder = chosen_run(run, WATCHABLE) if run is not None else _in_progress() if cluster is None else None
    if folder is not None:
        return view_run(folder, request)
    from railbed.cli.verbs.watch.view import watch_cluster

    return watch_cluster(given_cluster(cluster, None) or built_in_local(), request, timeout=timeout)


def _refuse_mixtures(wanted: Mapping[str, bool], *, address: str, port: int | None) -> None:
    """Refuse options that would be ignored."""
    apart = wanted["--exporter"] or wanted["--write-monitoring"]
    chosen = [name for name, is_set in wanted.items() if is_set and (name not in ("RUN", "--for") or apart)]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} cannot be combined", hint="use one of them")
    if not (apart or wanted["--page"]) and (address != LOCAL or port is not None):
        name = "--address" if address != LOCAL else "--port"
        raise UsageError(f"{name} needs --page or --exporter", hint="add one of them")


def _in_progress() -> Path | None:
    """Return the newest run in progress that has samples."""
    for summary in list_runs():
        folder = runs_folder() / summary.id
        if summary.status == "running" and (folder / SERIES).is_dir():
            return folder
    return None


def _export(
    cluster: Path | None, address: str, port: int | None, interval: float | None, *, timeout: float, as_json: bool
) -> int:
    from railbed.cli.verbs.watch.exporter import serve_metrics
    from railbed.web.metrics.run import ExportRequest
    from railbed.web.monitoring.service import DEFAULT_PORT

    request = ExportRequest(
        address=address,
        port=DEFAULT_PORT if port is None else port,
        token=own_token(),
        interval=interval or 1.0,
        switch_interval=max(SWITCH_SECONDS, interval or 0.0),
    )
    return serve_metrics(given_cluster(cluster, None) or built_in_local(), request, timeout=timeout, as_json=as_json)


def _write_monitoring(
    folder: Path, cluster: Path | None, address: str, port: int | None, interval: float | None, *, as_json: bool
) -> int:
    from railbed.cli.verbs.watch.exporter import write_monitoring_files
    from railbed.web.monitoring.service import DEFAULT_PORT, Listening

    file = cluster or DEFAULT_CLUSTER
    site = given_cluster(cluster, None) or default_cluster()
    where = Listening(address=address, port=DEFAULT_PORT if port is None else port, interval=interval)
    return write_monitoring_files(folder, site, file, where, as_json=as_json)
