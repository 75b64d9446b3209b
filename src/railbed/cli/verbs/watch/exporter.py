"""railbed watch --exporter: serves metrics for Prometheus until it is ended, as a service or by hand."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from railbed.cli.exits import OK
from railbed.cli.screens.json import JsonScreen
from railbed.cli.signals import run_until_ended
from railbed.errors import UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Event
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from railbed.web.access import is_loopback
from railbed.web.metrics.run import ExportRequest, export

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
"""What fits into an Authorization header, and is hard to guess."""


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


def read_token(path: Path) -> str:
    """Return the token in a file; raise UsageError if others can read the file, or if it holds no good token."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4096).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(f"the token in {path} cannot be read: {os_reason(error)}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"others can read the token in {path}", hint=f"`chmod 600 {path}`")
    if not TOKEN.fullmatch(text):
        raise UsageError(
            f"{path} does not hold a token: 16 to 512 letters, digits and . _ ~ + / = -",
            hint=f"`openssl rand -hex 32 > {path}` makes one",
        )
    return text
