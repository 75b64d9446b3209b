"""The recorder on one node, seen from here: what is sent to it, and what becomes of its answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from railbed.capture import node as node_package
from railbed.capture.recording import PortPlan, PortTotals, RecorderEnd, RecorderProgress, RecordingLimits
from railbed.errors import DeviceError, UsageError, os_reason
from railbed.fleet import Fleet
from railbed.fleet.node_program import BANNER_LINES, NodeProgram, ProgramOutput
from railbed.model.private import for_us_alone
from railbed.model.text import printable
from railbed.transport.base import Program

RECORDER = NodeProgram(
    purpose="capturing",
    package="railbed.capture.node",
    folder=Path(node_package.__file__).parent,
    modules=("tcpdump", "recorder"),
)
M = TypeVar("M", bound=BaseModel)
START_SECONDS = 90.0
"""How long a recorder may take until all its tcpdumps listen: an emulated machine is slow."""
SILENCE_SECONDS = 60.0
"""A node that answers no heartbeat for this long is frozen or cut off. The others record meanwhile, so there is no
hurry, and a node that is busy with traffic may be late."""
BEAT_SECONDS = 1.0
BUFFER_KILOBYTES = 16 * 1024
"""Of the kernel, for packets that tcpdump has not read yet."""
ROCE = "(udp dst port 4791 or ether proto 0x8915)"
PAUSE = "ether proto 0x8808"
FILTER = f"{ROCE} or {PAUSE} or (vlan and ({ROCE} or (vlan and {ROCE})))"
"""RoCEv2, RoCEv1 and pause frames, with up to two VLAN tags. `vlan` shifts what follows it, so it comes last."""
LENGTH = re.compile(r"[0-9]{1,19}")
SOMETHING_ELSE = "its recorder sent something else"
NOT_PERMITTED = ("permission", "not permitted")
NEEDS_RIGHTS = "capturing needs root, sudo without a password, or the capability CAP_NET_RAW for tcpdump there"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortResult:
    """The recording of one port."""

    plan: PortPlan
    path: Path
    bytes: int
    captured: int | None = None
    dropped: int | None = None
    """None if tcpdump was killed before it could count."""
    reason: str = ""
    """Why it ended by itself, before it was stopped."""
    span: tuple[int, int] | None = None
    """From when until when it surely recorded, on the clock of the node; None if it ended by itself."""


@dataclass
class Control:
    """What all nodes wait for."""

    stop: asyncio.Event
    go: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a node has something new."""


class Lost(Exception):
    """A node does not record any more; the text is the reason. Not a DeviceError, which would close the connection."""


@dataclass
class NodeRecorder:
    """Runs the recorder on a node, from its start to the last byte."""

    node: str
    python: str
    plans: Sequence[PortPlan]
    limits: RecordingLimits
    folder: Path
    control: Control
    ready: bool = False
    done: bool = False
    """Everything was fetched, or the node is lost."""
    why: str = ""
    """Why it is lost; empty if it is not."""
    packets: int = 0
    ended: bool = False
    """All its ports have ended by themselves."""
    results: list[PortResult] = field(default_factory=list)
    _ending: RecorderEnd = field(default_factory=lambda: RecorderEnd(began=0, ended=0, ports={}))

    async def serve(self, fleet: Fleet) -> None:
        """Record; a node that is lost is a value."""
        try:
            async with asyncio.timeout(START_SECONDS) as limit:
                async with fleet.open(self.node, RECORDER.command(self.python, as_root=True)) as remote:
                    self.why = await self._follow(remote, lambda: limit.reschedule(None))
        except TimeoutError:
            await fleet.hang_up_if_broken(self.node)
            self.why = f"its recorder did not start within {START_SECONDS:g} s"
        except DeviceError as error:
            self.why = error.message
        finally:
            self.done = True
            self.control.changed.set()

    async def _follow(self, remote: Program, started: Callable[[], None]) -> str:
        """Exchange lines until everything is fetched; return why that failed."""
        output = ProgramOutput(remote)
        await remote.write(RECORDER.text + self._order())
        tasks = [asyncio.create_task(_beat(remote)), asyncio.create_task(self._command(remote))]
        try:
            await self._skip_greeting(output)
            while not self.done:
                line = await self._line(output)
                await self._take(line, output)
                if self.ready:
                    started()
        except Lost as lost:
            return str(lost)
        except TimeoutError:
            if not self.ready:
                raise
            return f"it has not answered for {SILENCE_SECONDS:g} s"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return ""

    async def _skip_greeting(self, output: ProgramOutput) -> None:
        """Skip what a login prints before our recorder."""
        last = b""
        for _ in range(BANNER_LINES):
            line = await output.line()
            if line is None:
                raise Lost(output.problem or f"its recorder did not start: {await output.last_words(last)}")
            if line.startswith(b"h 1 "):
                return
            last = line or last
        raise Lost("its login printed much more than a banner, and no recorder started")

    async def _line(self, output: ProgramOutput) -> bytes:
        async with asyncio.timeout(SILENCE_SECONDS if self.ready else None):
            line = await output.line()
        if line is None:
            raise Lost(output.problem or "its recorder ended")
        return line

    async def _take(self, line: bytes, output: ProgramOutput) -> None:
        kind, _, rest = line.partition(b" ")
        match kind:
            case b"y":
                self.ready = True
            case b"n":
                ports = _read(RecorderProgress, rest).ports.values()
                self.packets = sum(port.packets for port in ports)
                self.ended = all(port.ended for port in ports)
            case b"t":
                self._ending = _read(RecorderEnd, rest)
                await output.remote.write(b"f\n")
            case b"d":
                await self._fetch(rest, output)
            case b"z":
                self.done = True
            case b"e":
                raise Lost(explain(printable(rest.decode("utf-8", "replace"))))
            case b"q":
                return
            case _:
                raise Lost(SOMETHING_ELSE)
        self.control.changed.set()

    async def _fetch(self, header: bytes, output: ProgramOutput) -> None:
        """Store the packets of one port."""
        plan, totals, length = self._read_header(header)
        path = self.folder / self.node / f"{plan.port.netdev}.pcap"
        left = length
        with _create_file(path) as file:
            while left:
                async with asyncio.timeout(SILENCE_SECONDS):
                    data = await output.some(left)
                if not data:
                    raise Lost("its recorder ended while it sent packets")
                _write(file, data, path)
                left -= len(data)
        self.results.append(
            PortResult(
                plan=plan,
                path=path,
                bytes=length,
                captured=totals.captured,
                dropped=totals.lost,
                reason=explain(printable(totals.reason)),
                span=(self._ending.began, self._ending.ended)
                if totals.captured is not None and not self.ended
                else None,
            )
        )

    def _read_header(self, header: bytes) -> tuple[PortPlan, PortTotals, int]:
        """Return the port whose packets follow, its counts, and how many bytes there are."""
        key, _, length = header.decode("utf-8", "replace").rpartition(" ")
        plan = next((plan for plan in self.plans if plan.port.netdev == key), None)
        totals = self._ending.ports.get(key)
        most = 2 * self.limits.bytes
        if plan is None or totals is None or not LENGTH.fullmatch(length) or int(length) > most:
            raise Lost(SOMETHING_ELSE)
        return plan, totals, int(length)

    async def _command(self, remote: Program) -> None:
        """Pass on what all nodes wait for."""
        await self.control.go.wait()
        await remote.write(b"g\n")
        await self.control.stop.wait()
        await remote.write(b"s\n")

    def _order(self) -> bytes:
        order = {
            "ports": [
                {"key": plan.port.netdev, "source": plan.method.source, "nanoseconds": plan.method.nanoseconds}
                for plan in self.plans
            ],
            "filter": FILTER,
            "snap": self.limits.snap_length,
            "bytes": self.limits.bytes,
            "packets": self.limits.packets,
            "buffer_kb": BUFFER_KILOBYTES,
        }
        return json.dumps(order, separators=(",", ":")).encode() + b"\n"


async def _beat(remote: Program) -> None:
    number = 0
    while True:
        number += 1
        await remote.write(b"p %d\n" % number)
        await asyncio.sleep(BEAT_SECONDS)


def explain(reason: str) -> str:
    """Return the reason of a recorder; missing rights in words."""
    if any(words in reason.lower() for words in NOT_PERMITTED):
        return NEEDS_RIGHTS
    return reason


def _create_file(path: Path) -> FileIO:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(path, "wb", buffering=0, opener=for_us_alone)
    except OSError as error:
        raise _not_stored(path, error) from error


def _write(file: FileIO, data: bytes, path: Path) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[file.write(view) :]
    except OSError as error:
        raise _not_stored(path, error) from error


def _not_stored(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"the packets cannot be stored in {path}: {os_reason(error)}",
        hint="free some disk space, limit the recording with --bytes, or set RAILBED_RUNS",
    )


def _read(kind: type[M], text: bytes) -> M:
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        raise Lost(SOMETHING_ELSE) from None
