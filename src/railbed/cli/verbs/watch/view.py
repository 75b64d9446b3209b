"""Shows a run: in the terminal, as plain lines, as JSON, or on a page.

The run is that of another process, one that has ended, or one that it samples the cluster into. The token that a page
or an exporter asks for is read from a file, so that it is in no command line.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from railbed.api.exits import INTERRUPTED, OK
from railbed.api.verbs.watch import watch
from railbed.cli.options import Options
from railbed.cli.run.perform import show
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.watch import WatchScreen
from railbed.errors import UsageError, os_reason
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store import follow, read_run_in
from railbed.store.timeline import Timeline
from railbed.store.timeline.samples import SampledMeasurements
from railbed.web.serve import listen

VARIABLE = "RAILBED_TOKEN_FILE"
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
"""What fits into an Authorization header, and is hard to guess."""


def own_token() -> str | None:
    """Return the token in the file that the environment names; None if it names none."""
    file = os.environ.get(VARIABLE)
    return read_token(Path(file)) if file else None


def read_token(path: Path) -> str:
    """Return the token in a file; raise UsageError if others can read the file, or if it holds no good token."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(4096).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(
            f"the token in {path} cannot be read: {os_reason(error)}", hint=f"correct {VARIABLE}, or unset it"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"others can read the token in {path}", hint=f"`chmod 600 {path}`")
    if not TOKEN.fullmatch(text):
        raise UsageError(
            f"{path} does not hold a token: 16 to 512 letters, digits and . _ ~ + / = -",
            hint=f"`openssl rand -hex 32 > {path}` makes one",
        )
    return text


LOCAL = "127.0.0.1"
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Where the page is served; port 0 is a free one."""

    address: str = LOCAL
    port: int = 0
    token: str | None = None
    listener: socket.socket | None = None
    """If it listens already."""


def local_page() -> PageRequest:
    """Return the page on this machine; it asks for the user's own token if there is one."""
    return PageRequest(token=own_token())


def show_line(line: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextmanager
def listening(request: PageRequest | None) -> Iterator[PageRequest | None]:
    """Listen before a run is created, so that an address that cannot be served leaves no run behind."""
    if request is None:
        yield None
        return
    with listen(request.address, request.port) as listener:
        yield replace(request, listener=listener)


@asynccontextmanager
async def page_beside(folder: Path | None, request: PageRequest | None, show: Show = show_line) -> AsyncIterator[None]:
    """Serve the page of a run meanwhile, and show its address; without a folder or a request do nothing.

    The address may contain a token, so it is shown and never stored.
    """
    if folder is None or request is None:
        yield
        return
    from railbed.web.page import page_app  # starlette and uvicorn are slow to load, and most runs have no page
    from railbed.web.serve import serving

    ending = asyncio.Event()
    app = page_app(folder, ending)
    server = serving(
        app,
        ending,
        address=request.address,
        port=request.port,
        token=request.token,
        listener=request.listener,
    )
    async with server as served:
        show(f"the page of {folder.name}: {served.url}")
        yield


ENDED_INTERVAL = 60.0
"""Of measurements, for a run that has ended; a run in progress has one every second."""
DRAW_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """How to show a run."""

    page: PageRequest | None = None
    json: bool = False
    interval: float | None = None
    seconds: float | None = None
    """Stop after this long."""


def view_run(folder: Path, request: ViewRequest) -> int:
    """Show a run until it ends; Ctrl-C leaves the run alone."""
    timeline = Timeline(folder)
    if not timeline.series() and not timeline.live:
        raise UsageError(f"{folder.name} has no samples and no training steps to show", hint=_hint(timeline))
    try:
        run_until_ended(_view(folder, timeline, request))
    except KeyboardInterrupt:
        summary = read_run_in(folder)
        if summary and summary.status == "running":
            sys.stderr.write(f"{folder.name} is still running: `railbed watch {folder.name}` shows it again\n")
        elif request.page:
            return OK  # the usual end of a server
        raise SystemExit(INTERRUPTED) from None
    return OK


def _hint(timeline: Timeline) -> str:
    if timeline.summary.verb == "train":
        return "it was started with --sample 0, or ended before its first step"
    return "`railbed train` and `railbed watch` make runs with samples; `railbed runs` lists all"


async def _view(folder: Path, timeline: Timeline, request: ViewRequest) -> None:
    async with page_beside(folder, request.page):
        try:
            async with asyncio.timeout(request.seconds):
                if request.json:
                    await _as_json(folder, timeline, request.interval)
                elif request.page:
                    await asyncio.Event().wait()
                else:
                    await _in_terminal(folder, timeline)
        except TimeoutError:
            return
        if request.page:
            await asyncio.Event().wait()  # the page stays until Ctrl-C, also when the records have ended


async def _in_terminal(folder: Path, timeline: Timeline) -> None:
    with WatchScreen(timeline) as screen:
        screen.begin(folder)
        try:
            while timeline.live:
                await asyncio.to_thread(screen.refresh)
                await asyncio.sleep(DRAW_SECONDS)
            await asyncio.to_thread(timeline.refresh)
        finally:
            screen.finish(folder)


async def _as_json(folder: Path, timeline: Timeline, interval: float | None) -> None:
    screen = JsonScreen()
    samples = SampledMeasurements(timeline, interval or (1.0 if timeline.live else ENDED_INTERVAL))
    async with aclosing(follow(folder)) as records:
        follower = asyncio.create_task(_show_all(records, screen))
        try:
            while timeline.live and not follower.done():
                for measurement in await asyncio.to_thread(lambda: list(samples.complete())):
                    screen.show(measurement)
                await asyncio.sleep(min(DRAW_SECONDS, interval or DRAW_SECONDS))
                await asyncio.to_thread(timeline.refresh)
            await follower
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
    timeline.refresh()
    for measurement in samples.complete(all_of_it=True):
        screen.show(measurement)


async def _show_all(records: AsyncGenerator[Record, None], screen: JsonScreen) -> None:
    async for record in records:
        screen.show(record)


def watch_cluster(cluster: Cluster, request: ViewRequest, *, timeout: float) -> int:
    """Sample a cluster until Ctrl-C, or for the requested time."""
    with listening(request.page) as page:
        return _sample_into_run(cluster, replace(request, page=page), timeout=timeout)


def _sample_into_run(cluster: Cluster, request: ViewRequest, *, timeout: float) -> int:
    interval = request.interval or 1.0
    screen = JsonScreen() if request.json else WatchScreen()
    options = Options(json=request.json, timeout=timeout)
    sampling = watch(cluster, interval=interval, seconds=request.seconds, reach=options)

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        folder = shown.run.folder
        view = Printer(screen, folder, interval) if isinstance(screen, JsonScreen) else screen
        return _show(sampling.invocation.work(fleet), view, folder, request.page)

    shown = sampling.doing(work)
    return show(shown, screen)


async def _show(
    records: AsyncGenerator[Record, None], view: Printer | WatchScreen, folder: Path, page: PageRequest | None
) -> AsyncGenerator[Record, None]:
    """Yield the records of sampling; the samples are read back from the run to show them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(page_beside(folder, page))
        redrawing = asyncio.create_task(_repeat(view))
        stack.push_async_callback(_end, redrawing)
        await stack.enter_async_context(aclosing(records))
        async for record in await stack.enter_async_context(aclosing(while_shown(records, redrawing))):
            yield record
    if isinstance(view, Printer):
        await asyncio.to_thread(view.refresh, all_of_it=True)


async def while_shown(
    records: AsyncGenerator[Record, None], showing: asyncio.Task[None]
) -> AsyncGenerator[Record, None]:
    """Yield records; an error of the view, such as a pipe that nothing reads any more, is raised here."""
    while True:
        coming = asyncio.ensure_future(anext(records, None))
        try:
            await asyncio.wait({coming, showing}, return_when=asyncio.FIRST_COMPLETED)
            if showing.done():
                showing.result()
            record = await coming
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        if record is None:
            return
        yield record


class Printer:
    """Prints samples without storing them: they are in the run's series already."""

    def __init__(self, screen: JsonScreen, folder: Path, interval: float) -> None:
        self._screen = screen
        self._timeline = Timeline(folder)
        self._samples = SampledMeasurements(self._timeline, interval)

    def refresh(self, *, all_of_it: bool = False) -> None:
        """Print the intervals that are complete."""
        self._timeline.refresh()
        for measurement in self._samples.complete(all_of_it=all_of_it):
            self._screen.show(measurement)


async def _repeat(view: Printer | WatchScreen) -> None:
    while True:
        await asyncio.sleep(DRAW_SECONDS)
        try:
            await asyncio.to_thread(view.refresh)
        except SystemExit:  # raised by rich if nothing reads the output
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
