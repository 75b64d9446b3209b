"""The work of `railbed capture`: the first Ctrl-C only stops recording, and what was recorded is judged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from railbed.api.stream import RecordStream
from railbed.api.verbs.capture import read_capture
from railbed.capture.book import CAPTURE_BOOK
from railbed.catalog import choose
from railbed.cli.explain import explain_rule
from railbed.cli.run.perform import show
from railbed.cli.run.signals import stop_at_first
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.site import given_cluster
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record


def cluster_to_record(file: Path | None, timeout: float) -> Cluster:
    """Return the cluster of a file or of this folder, else this machine."""
    return given_cluster(file, None) or _local_cluster(timeout)


def _local_cluster(timeout: float) -> Cluster:
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.cli.site import local_cluster

    return local_cluster(timeout)


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    rules = CAPTURE_BOOK.rules
    return explain_rule(choose(rules, name, kind="rule", listing=f"the rules are {', '.join(rules)}"), as_json=as_json)


def read_files(
    files: Sequence[Path],
    cluster_file: Path | None,
    export: Path | None,
    *,
    force: bool,
    as_json: bool,
    everything: bool,
) -> int:
    """Read and judge recordings that were made elsewhere, and return the exit code."""
    stream = read_capture(files, given_cluster(cluster_file, None), export=export, force=force)
    return show(stream, _screen(stream.invocation.cluster, as_json=as_json, everything=everything))


def show_recording(recording: Callable[..., RecordStream], *, as_json: bool, everything: bool) -> int:
    """Show a capture that gets an event to stop at, which the first Ctrl-C sets; return the exit code."""
    stop = asyncio.Event()
    stream = recording(stop=stop)
    recorded = stream.invocation.work

    async def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        with stop_at_first(stop):
            async with aclosing(recorded(fleet)) as records:
                async for record in records:
                    yield record

    return show(stream.doing(work), _screen(stream.invocation.cluster, as_json=as_json, everything=everything))


def _screen(cluster: Cluster, *, as_json: bool, everything: bool) -> Screen:
    if as_json:
        return JsonScreen()
    # Imported here because drawing is slow to load, and JSON draws nothing.
    from railbed.cli.screens.capture import CaptureScreen

    return CaptureScreen(verbose=everything, cluster=cluster)
