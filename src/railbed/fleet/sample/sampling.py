"""Sampling as a stream of events; the samples themselves go to a function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from railbed.fleet.fleet import Fleet
from railbed.fleet.sample.clock import ControlClock
from railbed.fleet.sample.intake import Emit, Intake
from railbed.fleet.sample.nodes import NodeSampler, ReaderState
from railbed.fleet.sample.switches import SwitchSampler
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import Sample
from railbed.model.record import Event

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 60.0
CLOCK_SECONDS = 0.5


async def sample(
    cluster: Cluster,
    fleet: Fleet,
    take: Callable[[Sample], None],
    *,
    interval: float = 1.0,
    switch_interval: float = 5.0,
    training: str = "",
    clock: ControlClock | None = None,
) -> AsyncGenerator[Event, None]:
    """Sample all devices of a cluster until this is closed; `take` gets every sample, on the clock of this machine.

    A device that fails gives a gap and an event; the others continue, and it is tried again. `training` is the folder
    below the working directory of nodes that a training's processes work in: its traffic is counted apart.
    """
    emitted: asyncio.Queue[Event | BaseException] = asyncio.Queue()
    clock = clock or ControlClock()
    emit = emitted.put_nowait
    work = [_follow_clock(clock, emit)]
    work += [
        NodeSampler(
            ReaderState(name, interval, clock, Intake(name, take, emit), emit),
            python=cluster.python_of(name),
            ports=[port.netdev for port in node.ports],
            training=training,
            peers=_peers(cluster, name),
        ).keep(fleet)
        for name, node in cluster.nodes.items()
    ]
    work += [
        SwitchSampler(cluster, name, switch_interval, Intake(name, take, emit)).keep(fleet)
        for name, switch in cluster.switches.items()
        if switch.host
    ]
    async with aclosing(_emitted_by(work, emitted)) as stream:
        async for event in stream:
            yield event


def _peers(cluster: Cluster, node: str) -> list[str]:
    """Return the IPv4 addresses of other nodes on the rails of a node."""
    ports = (peer for port in cluster.nodes[node].ports for _, peer in cluster.peers(node, port))
    return list(dict.fromkeys(str(peer.address) for peer in ports if peer.address.version == 4))


async def _emitted_by(
    work: Iterable[Coroutine[Any, Any, None]], emitted: asyncio.Queue[Event | BaseException]
) -> AsyncGenerator[Event, None]:
    """Yield events while endless work goes on; an error in it is a fault of ours, and is raised."""
    tasks = [asyncio.create_task(part) for part in work]

    def report(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            emitted.put_nowait(error)

    for task in tasks:
        task.add_done_callback(report)
    try:
        while True:
            event = await emitted.get()
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow_clock(clock: ControlClock, emit: Emit) -> None:
    while True:
        if seconds := clock.check():
            message = f"the clock of this machine was set by {seconds:+.3f} s"
            emit(events.ClockJumped(subject="control", message=message, seconds=round(seconds, 6)))
        await asyncio.sleep(CLOCK_SECONDS)
