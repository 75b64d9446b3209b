"""The work of `railbed capture`: record a cluster, with a stream of our own if wanted, or read files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

from railbed.api.exits import OK
from railbed.api.site import built_in_local
from railbed.capture.analysis.context import Context
from railbed.capture.judge import all_rules
from railbed.capture.read import SourceFile, read_and_judge
from railbed.capture.run import CaptureRequest, capture
from railbed.catalog import choose
from railbed.cli.options import Options
from railbed.cli.run.alongside import alongside
from railbed.cli.run.perform import perform
from railbed.cli.run.signals import stop_at_first
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.site import given_cluster
from railbed.cli.verbs.capture.stream import Stream, choose_stream
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.model.text.paths import exists, is_file, is_folder
from railbed.store.run import RAW


def capture_cluster(file: Path | None, request: CaptureRequest, options: Options, stream: str | None) -> int:
    """Record the ports of a cluster, judge the packets, and return the exit code."""
    cluster = given_cluster(file, None) or _local_cluster(options.timeout)
    traffic = choose_stream(stream, cluster, request)
    folders: list[Path] = []

    @contextmanager
    def beside(run: Path) -> Iterator[Callable[[Record], None]]:
        folders.append(run)
        yield _nothing

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _recorded(cluster, fleet, request, folders[0] / RAW, traffic)

    return perform("capture", cluster, options, work, screen=_screen(options, cluster), beside=beside)


def _local_cluster(timeout: float) -> Cluster:
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.cli.local import local_cluster

    return local_cluster(timeout)


def explain_named(name: str, *, as_json: bool) -> int:
    """Explain a rule."""
    # Imported here because drawing is slow to load, and JSON draws nothing.
    from railbed.cli.verbs.check.explain import print_page

    rule = choose(all_rules(), name, kind="rule", listing=f"the rules are {', '.join(all_rules())}")
    print_page(rule.name, rule.title, rule.sections, as_json=as_json)
    return OK


def refuse_target(target: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Refuse to write to a file that exists, is read, or cannot be written, before anything is recorded."""
    if not exists(target):
        if not is_folder(target.absolute().parent):
            raise UsageError(f"cannot write the packets to {target}: its folder does not exist")
    elif not is_file(target):
        raise UsageError(f"cannot write the packets to {target}: it is not a file")
    elif any(exists(path) and target.samefile(path) for path in inputs):
        raise UsageError(f"{target} is one of the files to read", hint="write the packets to another file")
    elif not force:
        raise UsageError(f"{target} exists already", hint="write the packets to another file, or replace it: --force")


def read_files(files: Sequence[Path], cluster_file: Path | None, options: Options, export: Path | None = None) -> int:
    """Read and judge recordings that were made elsewhere; a cluster file names their addresses."""
    cluster = given_cluster(cluster_file, None)
    context = Context.of(cluster) if cluster else Context()
    sources = [_source(path, name, cluster) for path, name in zip(files, _names(files), strict=True)]

    def work(_fleet: Fleet) -> AsyncGenerator[Record, None]:
        return read_and_judge(sources, context, export)

    # Nothing connects to the built-in cluster: every run has one.
    named = cluster or built_in_local()
    return perform("capture", named, options, work, screen=_screen(options, named))


def _source(path: Path, name: str, cluster: Cluster | None) -> SourceFile:
    """Return a file, with the port that a folder and a name like those of a run stand for: `node1/rail0.pcap`."""
    node, netdev = path.absolute().parent.name, path.name.partition(".")[0]
    ports = cluster.nodes[node].ports if cluster and node in cluster.nodes else ()
    port = next((port for port in ports if port.netdev == netdev), None)
    if port is None:
        return SourceFile(path=path, shown=str(path), name=name)
    address = (str(port.address),)
    return SourceFile(path=path, shown=str(path), name=f"{node}/{netdev}", device=node, port=netdev, addresses=address)


def _names(files: Sequence[Path]) -> list[str]:
    """Return short names for files: their own, or their paths if two have the same."""
    short = [path.name for path in files]
    return short if len(set(short)) == len(short) else [str(path) for path in files]


def _screen(options: Options, cluster: Cluster) -> Screen:
    if options.json:
        return JsonScreen()
    # Imported here because drawing is slow to load, and JSON draws nothing.
    from railbed.cli.screens.capture import CaptureScreen

    return CaptureScreen(verbose=options.verbose, cluster=cluster)


async def _recorded(
    cluster: Cluster, fleet: Fleet, request: CaptureRequest, folder: Path, traffic: Stream | None
) -> AsyncGenerator[Record, None]:
    """Yield the records of a capture and of its stream; the first Ctrl-C only stops recording."""
    stop = asyncio.Event()
    with stop_at_first(stop):
        records = capture(cluster, fleet, request, folder, stop)
        if traffic is not None:
            started = asyncio.Event()
            records = alongside(_noting(records, started), _during(traffic(fleet), started, stop), what="the stream")
        async with aclosing(records):
            async for record in records:
                yield record


async def _noting(records: AsyncGenerator[Record, None], started: asyncio.Event) -> AsyncGenerator[Record, None]:
    """Pass records on, and note when recording has started."""
    async with aclosing(records):
        async for record in records:
            yield record
            if isinstance(record, events.CaptureStarted):
                started.set()


async def _during(
    traffic: AsyncGenerator[Record, None], started: asyncio.Event, stop: asyncio.Event
) -> AsyncGenerator[Record, None]:
    """Send a stream once recording has started, and stop recording when it ends, however it does."""
    async with aclosing(traffic):
        await started.wait()
        try:
            async for record in traffic:
                yield record
        finally:
            stop.set()


def _nothing(_record: Record) -> None:
    pass
