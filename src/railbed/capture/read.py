"""Reads recordings, analyses them together, and judges them: for those of nodes and for files taken elsewhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from railbed.capture.analysis.analyse import analyse
from railbed.capture.analysis.context import Context
from railbed.capture.book import CAPTURE_BOOK
from railbed.capture.export import Exported, export_recordings
from railbed.capture.files import read_recording
from railbed.capture.packets import Recording
from railbed.capture.records import records_of
from railbed.capture.remote import PortResult
from railbed.model import events
from railbed.model.events.general import progress
from railbed.model.record import Event, Record
from railbed.model.text import duration, plural
from railbed.rules.engine import judge

NANOSECONDS = 1_000_000_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to read, and what is known of it besides."""

    path: Path
    shown: str
    """Its path in records."""
    name: str
    device: str = ""
    port: str = ""
    addresses: tuple[str, ...] = ()
    captured: int | None = None
    """How many packets were written to it, of which a ring keeps the newest."""
    dropped: int | None = None
    span: tuple[int, int] | None = None


def source_of(result: PortResult, shown: str) -> SourceFile:
    """Return the file of a port that was recorded here."""
    plan = result.plan
    return SourceFile(
        path=result.path,
        shown=shown,
        name=plan.subject,
        device=plan.node,
        port=plan.port.netdev,
        addresses=(str(plan.port.address),),
        captured=result.captured,
        dropped=result.dropped,
        span=result.span,
    )


async def read_and_judge(
    sources: Sequence[SourceFile], context: Context, export: Path | None = None
) -> AsyncGenerator[Record, None]:
    """Yield an event for each file, then flows, then findings; raise CaptureFileError for what is not a recording.

    All packets are also written to `export`, as one file.
    """
    recordings: list[Recording] = []
    for number, source in enumerate(sources):
        yield progress("reading packets", detail=source.name, done=number, total=len(sources))
        recording = await in_thread_until_cancelled(_read, source)
        recordings.append(recording)
        yield _event(recording, source)
    yield progress("judging packets")
    analysis = await in_thread_until_cancelled(analyse, recordings, context)
    for event in await in_thread_until_cancelled(lambda: list(records_of(analysis))):
        yield event
    findings = await in_thread_until_cancelled(lambda: list(judge(CAPTURE_BOOK, analysis)))
    for finding in findings:
        yield finding
    if export:
        yield progress("writing packets", detail=str(export))
        files = [source.path for source in sources]
        exported = await asyncio.to_thread(export_recordings, analysis, files, export, findings)
        yield _report_export(export, exported, recordings)


async def in_thread_until_cancelled(function: Callable[..., T], *arguments: object) -> T:
    """Run a function in a thread that does not hold up the end of the process if this is cancelled.

    asyncio waits for its own threads, which takes minutes if a file is large.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        try:
            value = function(*arguments)
        except BaseException as error:
            finish(result.set_exception, error)
        else:
            finish(result.set_result, value)

    def finish(settle: Callable[[Any], None], value: object) -> None:
        def unless_cancelled() -> None:
            if not result.done():
                settle(value)

        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(unless_cancelled)

    threading.Thread(target=work, daemon=True).start()
    return await result


def _report_export(file: Path, exported: Exported, recordings: Sequence[Recording]) -> Event:
    message = f"{file} has {plural(exported.packets, 'packet')} of all recordings, {exported.comments:,} with a comment"
    incomplete = [recording.name for recording in recordings if recording.defect]
    return events.PacketsExported(
        message=f"{message}, for Wireshark" + (f"; cut or damaged: {', '.join(incomplete)}" if incomplete else ""),
        file=str(file),
        packets=exported.packets,
        bytes=exported.bytes,
        comments=exported.comments,
        left_out=exported.left_out or None,
        incomplete=incomplete or None,
    )


def _read(source: SourceFile) -> Recording:
    recording = read_recording(
        source.path, name=source.name, device=source.device, port=source.port, addresses=source.addresses
    )
    span = source.span
    times = recording.packets["time"]
    if span and len(times) and _overwritten(recording, source):
        span = (int(times[0]), span[1])
    if span and len(times) and recording.defect:
        span = (span[0], int(times.max()))
    dropped = recording.dropped if source.dropped is None else source.dropped
    return replace(recording, file=source.shown, dropped=dropped, span=span)


def _overwritten(recording: Recording, source: SourceFile) -> int:
    """Return how many packets the ring of files had no room for."""
    return max(0, source.captured - recording.total) if source.captured is not None else 0


def _event(recording: Recording, source: SourceFile) -> Event:
    times = recording.packets["time"]
    first, last = (int(times.min()), int(times.max())) if len(times) else (0, 0)
    packets, overwritten = len(recording.packets), _overwritten(recording, source)
    message = plural(packets, "packet") + (f" in {duration((last - first) / NANOSECONDS)}" if packets else "")
    if overwritten:
        message += f"; {plural(overwritten, 'older packet')} did not fit"
    if recording.defect:
        message += f"; {recording.defect}"
    return events.RecordingRead(
        subject=recording.name,
        message=message,
        file=source.shown,
        packets=packets,
        total=recording.total,
        bytes=int(recording.packets["length"].sum(dtype="i8")),
        snap_length=recording.snap_length,
        truncated=recording.truncated,
        dropped=recording.dropped,
        overwritten=overwritten or None,
        began=first / NANOSECONDS if packets else None,
        ended=last / NANOSECONDS if packets else None,
    )
