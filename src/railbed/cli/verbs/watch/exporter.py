"""railbed watch --exporter: serves metrics for Prometheus until it is ended, as a service or by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import aclosing

from railbed.api.exits import OK
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.json import JsonScreen
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Event
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from railbed.web.access import is_loopback
from railbed.web.metrics.run import ExportRequest, export


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
