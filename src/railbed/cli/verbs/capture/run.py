"""The work of `railbed capture`: the first Ctrl-C only stops recording, and what was recorded is judged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from railbed.api.stream import RecordStream
from railbed.capture.book import CAPTURE_BOOK
from railbed.catalog import choose
from railbed.cli.explain import explain_rule
from railbed.cli.run.perform import show
from railbed.cli.run.signals import stop_at_first
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.site import given_cluster
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record


def cluster_to_record(file: Path | None, timeout: float) -> Cluster:
    """Return the cluster of a file or of this folder, else this machine."""
    return given_cluster(file, None) or _local_cluster(timeout)


def _local_cluster(timeout: float) -> Cluster:
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.cli.local import local_cluster

    return local_cluster(timeout)


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    rules = CAPTURE_BOOK.rules
    return explain_rule(choose(rules, name, kind="rule", listing=f"the rules are {', '.join(rules)}"), as_json=as_json)


def show_capture(stream: RecordStream, stop: asyncio.Event | None, *, as_json: bool, everything: bool) -> int:
    """Show a capture and return the exit code; the first Ctrl-C sets `stop`, if there is one."""
    screen = _screen(stream.invocation.cluster, as_json=as_json, everything=everything)
    if stop is None:
        return show(stream, screen)
    recorded = stream.invocation.work

    async def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        with stop_at_first(stop):
            async with aclosing(recorded(fleet)) as records:
                async for record in records:
                    yield record

    return show(stream.doing(work), screen)


def _screen(cluster: Cluster, *, as_json: bool, everything: bool) -> Screen:
    if as_json:
        return JsonScreen()
    # Imported here because drawing is slow to load, and JSON draws nothing.
    from railbed.cli.screens.capture import CaptureScreen

    return CaptureScreen(verbose=everything, cluster=cluster)
