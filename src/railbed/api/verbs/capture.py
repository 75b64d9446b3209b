"""`railbed.capture` and `railbed.read_capture`: RoCE packets, recorded on all nodes or read from files, and judged."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

from railbed.api.clusters import ClusterLike, cluster_of, cluster_words
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.site import built_in_local
from railbed.api.stream import RecordStream
from railbed.api.verbs.capture_stream import Stream, choose_stream
from railbed.capture.analysis.context import Context
from railbed.capture.read import SourceFile, read_and_judge
from railbed.capture.recording import HEADERS_BYTES, PORT_BYTES, RecordingLimits
from railbed.capture.run import CaptureRequest
from railbed.capture.run import capture as capture_ports
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.model.text import exists, is_file, is_folder
from railbed.store import Store
from railbed.store.run import RAW
from railbed.watch.run import alongside

DEFAULT_SECONDS = 10.0


def capture(
    cluster: ClusterLike = None,
    *,
    nodes: Sequence[str] = (),
    rails: Sequence[str] = (),
    seconds: float | None = None,
    packets: int = 0,
    ring_bytes: int = PORT_BYTES,
    snap_length: int = HEADERS_BYTES,
    stream: str | None = None,
    export: str | os.PathLike[str] | None = None,
    force: bool = False,
    stop: asyncio.Event | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Record RoCE packets on all nodes at once and judge them: marks, losses, congestion.

    Yields what is recorded on each port, the flows, and findings about them.

    It records for `seconds` (10, or as long as the stream), or until `stop` is set: at most `packets` on each port (0
    for no limit), the newest in a ring of `ring_bytes`, and `snap_length` bytes of each packet. `stream`, as `bench` or
    `bench:SUITE`, sends packets meanwhile. `export` is a pcapng file to write, which `force` replaces.
    """
    reach, store = reach or Reach(), store or Store()
    target = Path(export) if export is not None else None
    refuse_target(target, (), force=force)
    site = cluster_of(cluster, reach)
    limits = RecordingLimits(
        seconds=seconds if seconds is not None or stream else DEFAULT_SECONDS,
        packets=packets,
        bytes=ring_bytes,
        snap_length=snap_length,
    )
    request = CaptureRequest(nodes=nodes, rails=rails, limits=limits, export=target)
    traffic = choose_stream(stream, site, request)
    folders: list[Path] = []

    @contextmanager
    def beside(run: Path) -> Iterator[Callable[[Record], None]]:
        folders.append(run)
        yield _nothing

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _record_ports(site, fleet, request, folders[0] / RAW, traffic=traffic, stop=stop or asyncio.Event())

    words = ["capture", *(["--with", stream] if stream else []), *cluster_words(cluster)]
    return RecordStream(Invocation(verb="capture", cluster=site, work=work, beside=beside), reach, store, words)


def read_capture(
    files: Sequence[str | os.PathLike[str]],
    cluster: ClusterLike = None,
    *,
    export: str | os.PathLike[str] | None = None,
    force: bool = False,
    store: Store | None = None,
) -> RecordStream:
    """Read and judge recordings that were made elsewhere: pcap or pcapng, also compressed.

    A cluster gives their addresses names. `export` is a pcapng file to write, which `force` replaces.
    """
    paths = [Path(file) for file in files]
    target = Path(export) if export is not None else None
    refuse_target(target, paths, force=force)
    site = None if cluster is None else cluster_of(cluster, Reach())
    context = Context.of(site) if site else Context()
    sources = [_source(path, name, site) for path, name in zip(paths, _names(paths), strict=True)]

    def work(_fleet: Fleet) -> AsyncGenerator[Record, None]:
        return read_and_judge(sources, context, target)

    # Nothing connects to the built-in cluster: every run has one.
    invocation = Invocation(verb="capture", cluster=site or built_in_local(), work=work)
    words = ["capture", *(word for path in paths for word in ("--from", str(path))), *cluster_words(cluster)]
    return RecordStream(invocation, Reach(), store, words)


def refuse_target(target: Path | None, inputs: Sequence[Path], *, force: bool) -> None:
    """Refuse to write to a file that exists, is read, or cannot be written, before anything is recorded."""
    if target is None:
        return
    if not exists(target):
        if not is_folder(target.absolute().parent):
            raise UsageError(f"cannot write the packets to {target}: its folder does not exist")
    elif not is_file(target):
        raise UsageError(f"cannot write the packets to {target}: it is not a file")
    elif any(exists(path) and target.samefile(path) for path in inputs):
        raise UsageError(f"{target} is one of the files to read", hint="write the packets to another file")
    elif not force:
        raise UsageError(f"{target} exists already", hint="write the packets to another file, or replace it: --force")


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


async def _record_ports(
    cluster: Cluster,
    fleet: Fleet,
    request: CaptureRequest,
    folder: Path,
    *,
    traffic: Stream | None,
    stop: asyncio.Event,
) -> AsyncGenerator[Record, None]:
    """Yield the records of a capture and of its stream."""
    records = capture_ports(cluster, fleet, request, folder, stop)
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
