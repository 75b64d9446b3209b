"""`railbed watch --exporter` serves metrics for Prometheus; `--write-monitoring` writes the files for its server.

The exporter runs until it is ended, as a service or by hand. Grafana and systemd have files, too.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from railbed.api.exits import OK
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.events import FilesRendered
from railbed.model.record import Event
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from railbed.web.access import is_loopback
from railbed.web.metrics.run import ExportRequest, export
from railbed.web.monitoring.files import monitoring_files, write_monitoring
from railbed.web.monitoring.service import Listening, Service


def serve_metrics(cluster: Cluster, request: ExportRequest, *, timeout: float, as_json: bool) -> int:
    """Serve until Ctrl-C or `kill`, which are the usual ends of a server: not a failure for systemd."""
    if request.token is None and not is_loopback(request.address):
        raise UsageError(
            f"metrics on {request.address} need a token, since others can reach it",
            hint="`umask 077; openssl rand -hex 32 > token` writes one; name the file with RAILBED_TOKEN_FILE=token",
        )
    show = JsonScreen().show if as_json else _print
    try:
        run_until_ended(_loop(cluster, request, timeout, show))
    except KeyboardInterrupt:
        return OK
    return OK


async def _loop(cluster: Cluster, request: ExportRequest, timeout: float, show: Callable[[Event], None]) -> None:
    async with (
        live_connector() as connect,
        Fleet(targets_of(cluster), connect, timeout=timeout) as fleet,
        aclosing(export(cluster, fleet, request)) as stream,
    ):
        async for event in stream:
            show(event)


def _print(event: Event) -> None:
    """Write a line, for the terminal or the journal."""
    sys.stderr.write(f"{event.subject}: {event.message}\n" if event.subject else f"{event.message}\n")
    sys.stderr.flush()


def write_monitoring_files(
    folder: Path, cluster: Cluster, cluster_file: Path, where: Listening, *, as_json: bool
) -> int:
    """Write the files and print their paths."""
    service = Service(
        program=_program(),
        cluster_file=cluster_file.absolute(),
        user=_user(),
        address=where.address,
        port=where.port,
        interval=where.interval,
        host=socket.gethostname() if where.address in ("0.0.0.0", "::") else "",  # noqa: S104  (compared, not bound)
    )
    files = monitoring_files(cluster, service)
    write_monitoring(folder, files)
    if as_json:
        JsonScreen().show(FilesRendered(message=f"written to {folder}", folder=str(folder), files=sorted(files)))
    else:
        sys.stdout.writelines(f"{folder / name}\n" for name in files)
    return OK


def _user() -> str:
    """Return the user of this process, whose SSH keys the service uses too."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _program() -> Path:
    """Return the command that systemd should start: the one that is running."""
    beside = Path(sys.executable).with_name("railbed")
    return beside if beside.exists() else Path(shutil.which("railbed") or "railbed").absolute()
