"""`railbed train --detach`: the run continues in its own process, and the terminal gets its prompt back.

The process is forked before anything is read or prepared, and it writes to the terminal until the cluster has passed
its check: errors in a recipe or a cluster file, and a cluster that cannot train, have the same message and the same
exit code as without `--detach`. A check that takes very long continues in the background.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import typer

from railbed.api.exits import INTERRUPTED, OK
from railbed.cli.background.runs import OUTPUT, to_attach, to_report, to_stop
from railbed.cli.screens.base import JsonScreen, Screen
from railbed.cli.screens.progress import ProgressLine
from railbed.errors import DeviceError, UsageError, os_reason
from railbed.model.events import Detached
from railbed.model.private import for_us_alone
from railbed.model.record import Record

if TYPE_CHECKING:
    import asyncio

STDIN, STDOUT, STDERR = 0, 1, 2
HEARD_SECONDS, TIMES = 2.0, 5
"""How long a run that has not begun may take to react to Ctrl-C, and how often it is sent before the run is killed."""
CHECK_SECONDS = 120.0
"""How long the terminal waits for the check, from the first record."""
LATE = b"\0"
"""Follows the run's folder in the pipe if the check has not ended."""


class EndedBefore(DeviceError):
    """The process in the background ended before its run had begun."""


class BackgroundScreen(Screen):
    """Shows the progress of the check, then signals the waiting process; the records contain everything else."""

    def __init__(self, waiting: int, inherited: Sequence[int], *, progress: bool) -> None:
        super().__init__()
        self.line = LineUntilEnd(shown=progress, on_end=self._let_go)
        self._waiting: int | None = waiting
        self._inherited = inherited
        self._run: Path | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, run: Path) -> None:
        """Note the run's folder."""
        self._run = run

    def show(self, record: Record) -> None:
        """Show progress while there is a terminal, for a limited time."""
        if self._waiting is None:
            return
        self.line.take(record)
        if self._timer is None:
            import asyncio  # slow to load, and loaded by now

            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._leave, LATE)

    def leave_terminal(self) -> None:
        """Leave the terminal: the cluster can train."""
        self._leave()

    def finish(self, run: Path) -> None:
        """Show nothing."""

    def _leave(self, note: bytes = b"") -> None:
        if self._waiting is None or self._run is None:
            return
        self.line.stop()
        _write_to(self._run / OUTPUT)
        for descriptor in self._inherited:
            with suppress(OSError):  # a pipe or lock of the caller, perhaps closed already
                os.close(descriptor)
        with suppress(BrokenPipeError):  # the waiting process was killed, or its terminal closed: the run continues
            os.write(self._waiting, os.fsencode(self._run) + note)
        self._let_go()

    def _let_go(self) -> None:
        """Close the pipe: the waiting process then waits for the end of this one. A signal handler may call this."""
        if self._waiting is not None:
            os.close(self._waiting)
            self._waiting = None


class LineUntilEnd(ProgressLine):
    """A progress line that also reports when the run is being ended."""

    def __init__(self, *, shown: bool, on_end: Callable[[], None]) -> None:
        super().__init__(shown=shown)
        self._on_end = on_end

    def end(self) -> None:
        """Show that processes are being ended, and report it."""
        super().end()
        self._on_end()


def detach_process(*, as_json: bool) -> BackgroundScreen:
    """Return in a process without a terminal, with the screen for it.

    The calling process does not return from here: it waits until the cluster has passed its check, prints how to show
    and stop the run, and exits; if the run ends before that, it exits with the same code.
    """
    # A fork copies one thread only, so there must be no other yet; a test verifies that.
    reading, waiting = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(waiting)
        _await_begin(process, reading, as_json=as_json)
    os.close(reading)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    return BackgroundScreen(waiting, _list_inherited(), progress=not as_json)


def _list_inherited() -> list[int]:
    """Return inherited descriptors, such as a lock or a pipe: they may be needed until the run has begun."""
    numbers = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    return [number for number in numbers if number > STDERR and _is_from_caller(number)]


def _is_from_caller(descriptor: int) -> bool:
    """Whether a descriptor came from the caller: those that Python opens are not inheritable."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False  # the descriptor of the listing, closed by now


def _await_begin(process: int, reading: int, *, as_json: bool) -> NoReturn:
    """Wait without a limit: the pipe closes when the run continues in the background, or is ending, or is gone."""
    with open(reading, "rb") as pipe:
        try:
            folder, late, _ = pipe.read().partition(LATE)
            if folder:
                _announce(Path(os.fsdecode(folder)), process, is_late=bool(late), as_json=as_json)
                raise typer.Exit(OK)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        except KeyboardInterrupt:
            if not hand_on(process, pipe):
                raise
            raise SystemExit(INTERRUPTED) from None  # it has printed the reason itself
    if code < 0:
        name = signal.Signals(-code).name
        raise EndedBefore(f"the process in the background was ended by {name} before the cluster was checked")
    raise typer.Exit(code)


def hand_on(process: int, pipe: BinaryIO) -> bool:
    """Forward Ctrl-C to the process, which has its own session, and return whether it reacted.

    A signal just before a blocking read is lost, so it is sent again until the pipe closes: then the process is gone,
    or its run has begun and ends normally. A process that never reacts is killed.
    """

    def send(*_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGINT)

    def is_heard() -> bool:
        send()
        return bool(select.select([pipe], [], [], HEARD_SECONDS)[0])

    signal.signal(signal.SIGINT, send)
    heard = any(is_heard() for _ in range(TIMES))
    if not heard:
        os.kill(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)
    return heard


def _announce(folder: Path, process: int, *, is_late: bool, as_json: bool) -> None:
    run = folder.name
    if as_json:
        JsonScreen().show(Detached(subject=run, run=run, folder=str(folder.absolute()), pid=process))
        return
    unchecked = f"; the cluster has not passed its check after {CHECK_SECONDS:g} s" if is_late else ""
    sys.stdout.write(f"{run} continues in the background{unchecked}\n")
    for command, what in (
        (to_attach(run), "shows it"),
        (to_stop(run), "stops it"),
        (to_report(run), "writes a page about it"),
    ):
        sys.stdout.write(f"  {command:<48} {what}\n")


def _write_to(path: Path) -> None:
    """Redirect all further output to a file."""
    try:
        descriptor = for_us_alone(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {os_reason(error)}") from error
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, STDOUT)
    os.dup2(descriptor, STDERR)
    os.close(descriptor)
