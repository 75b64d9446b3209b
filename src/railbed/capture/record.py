"""Records packets on many nodes at once: all listen before any begins, and all stop together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from railbed.capture.recording import PortPlan, RecordOrder
from railbed.capture.remote import Control, NodeRecorder, PortResult
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.events.general import progress
from railbed.model.record import Event
from railbed.model.text import plural, size

PROGRESS_SECONDS = 1.0


@dataclass
class Recorded:
    """What recording gave."""

    ports: list[PortResult] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Nodes whose packets could not be recorded or fetched, and why."""


async def record(
    cluster: Cluster, fleet: Fleet, order: RecordOrder, stop: asyncio.Event, recorded: Recorded
) -> AsyncGenerator[Event, None]:
    """Record ports until the time is up or `stop` is set, and fetch their packets into the folder."""
    session = _Session(cluster, order, stop)
    tasks = [asyncio.create_task(recorder.serve(fleet)) for recorder in session.recorders]
    try:
        for phase in (session.prepare(), session.follow(), session.fetch(recorded)):
            async with aclosing(phase) as emitted:
                async for event in emitted:
                    _raise_faults(tasks)
                    yield event
            _raise_faults(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _raise_faults(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Raise what ended a task: a full disk here, or a fault of ours. What happens on a node is a value."""
    for task in tasks:
        if task.done():
            task.result()


class _Session:
    """The recorders of one recording, through its phases."""

    def __init__(self, cluster: Cluster, order: RecordOrder, stop: asyncio.Event) -> None:
        by_node: dict[str, list[PortPlan]] = {}
        for plan in order.plans:
            by_node.setdefault(plan.node, []).append(plan)
        self._plans = order.plans
        self._limits = order.limits
        self._control = Control(stop=stop)
        self.recorders = [
            NodeRecorder(node, cluster.python_of(node), ports, order.limits, order.folder, self._control)
            for node, ports in by_node.items()
        ]

    async def prepare(self) -> AsyncGenerator[Event, None]:
        """Wait until every node listens or has refused; then let them begin."""
        while waiting := [each.node for each in self.recorders if not each.ready and not each.done]:
            yield progress("starting tcpdump", waiting=waiting)
            await self._change()
        ready = {recorder.node for recorder in self.recorders if not recorder.done}
        if not ready:
            reasons = "; ".join(f"{recorder.node}: {recorder.why}" for recorder in self.recorders)
            raise DeviceError(f"no packets can be recorded: {reasons}")
        self._control.go.set()
        ports = [plan.subject for plan in self._plans if plan.node in ready]
        yield events.CaptureStarted(
            message=f"recording {plural(len(ports), 'port')} of {plural(len(ready), 'node')}",
            ports=ports,
            snap_length=self._limits.snap_length,
            seconds=self._limits.seconds,
        )

    async def follow(self) -> AsyncGenerator[Event, None]:
        """Report progress until the time is up, somebody stops it, or all ports have ended."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        end = began + self._limits.seconds if self._limits.seconds is not None else None
        while not self._control.stop.is_set() and any(not each.done and not each.ended for each in self.recorders):
            packets = sum(recorder.packets for recorder in self.recorders)
            left = end - loop.time() if end is not None else None
            if left is not None and left <= 0:
                break
            yield progress("recording", detail=plural(packets, "packet"), left=left)
            pause = PROGRESS_SECONDS if left is None else min(PROGRESS_SECONDS, left)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._control.stop.wait()
        self._control.stop.set()

    async def fetch(self, recorded: Recorded) -> AsyncGenerator[Event, None]:
        """Wait until every node has sent its packets; report each port."""
        reported: set[str] = set()
        while True:
            for result in [result for each in self.recorders for result in each.results]:
                if result.plan.subject not in reported:
                    reported.add(result.plan.subject)
                    recorded.ports.append(result)
                    yield _report_port(result)
            waiting = [recorder.node for recorder in self.recorders if not recorder.done]
            if not waiting:
                break
            yield progress("fetching packets", waiting=waiting)
            await self._change()
        recorded.lost.update({each.node: each.why for each in self.recorders if each.why})

    async def _change(self) -> None:
        """Wait until a node has something new."""
        await self._control.changed.wait()
        self._control.changed.clear()


def _report_port(result: PortResult) -> Event:
    counted = plural(result.captured, "packet") if result.captured is not None else "packets"
    message = f"{counted}, {size(result.bytes)}"
    if result.dropped:
        message += f"; {plural(result.dropped, 'packet')} dropped before they were recorded"
    return events.PortCaptured(
        subject=result.plan.subject,
        message=f"{message}; ended early: {result.reason}" if result.reason else message,
        file=f"{result.path.parent.parent.name}/{result.plan.node}/{result.path.name}",
        bytes=result.bytes,
        captured=result.captured,
        dropped=result.dropped,
        reason=result.reason or None,
    )
