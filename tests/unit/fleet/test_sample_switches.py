"""Sampling a switch: the emulated Nexus answers in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from tests.support.nexus import PORTS, cluster, connected, printed

from railbed.errors import Unreachable
from railbed.fleet.sample import sample, switches
from railbed.model import events
from railbed.model.meters import METERS, Sample, SeriesKey
from railbed.model.reading import Output
from railbed.model.record import Event
from railbed.transport.base import Command
from switchlab.nexus.model.switch import Switch as Emulated


class FakeFleet:
    """A fleet with one switch, which may be out of reach."""

    def __init__(self, switch: Emulated) -> None:
        self.switch = switch
        self.reachable = True

    async def ask(self, device: str, command: Command) -> Output:
        assert (device, command.recorded) == ("s1", False)
        if not self.reachable:
            raise Unreachable("no answer")
        return replace(printed(self.switch, command.script), key=command.key)


async def sampled(
    fleet: FakeFleet, *kinds: type[Event], act: Callable[[Event], object]
) -> tuple[list[Any], list[Sample]]:
    """Sample until events of these kinds came, in this order; return them and the samples."""
    taken: list[Sample] = []
    any_fleet: Any = fleet
    stream = sample(cluster().model_copy(update={"nodes": {}}), any_fleet, taken.append, switch_interval=0.05)
    received = []
    async with asyncio.timeout(120), aclosing(stream):
        for kind in kinds:
            received.append(await anext(stream))
            assert isinstance(received[-1], kind), received
            act(received[-1])
    return received, taken


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet(connected("n9k"))


async def test_queues_pauses_and_errors_of_cabled_ports(fleet: FakeFleet) -> None:
    (started,), taken = await sampled(fleet, events.Sampling, act=lambda _: None)
    layout = taken[0].layout
    assert started.series == len(layout) == len(set(layout))
    assert {series.meter for series in layout} <= METERS.keys()
    assert {series.port for series in layout} >= set(PORTS)
    for series in (
        SeriesKey("s1", "queue_tx_bytes", PORTS[0], "3"),
        SeriesKey("s1", "switch_pause_rx_frames", PORTS[0]),
        SeriesKey("s1", "switch_priority_pause_tx_frames", PORTS[0], "3"),
        SeriesKey("s1", "switch_rx_bytes", PORTS[1]),
        SeriesKey("s1", "switch_crc_errors", PORTS[1]),
    ):
        assert series in layout


async def test_a_switch_that_refuses_or_is_gone_is_a_gap(fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switches, "PATIENCE", 1000)
    refused = fleet.switch.faults.refused
    actions: list[Callable[[], object]] = [
        lambda: refused.update({"show queuing": "% Permission denied for the role"}),
        refused.clear,
        lambda: None,
        lambda: setattr(fleet, "reachable", False),
        lambda: setattr(fleet, "reachable", True),
        lambda: None,
    ]
    kinds = (events.Sampling, *(events.SamplingGap, events.SamplingResumed, events.Sampling) * 2)[:-1]
    (_, refusal, _, _, loss, resumed), taken = await sampled(fleet, *kinds, act=lambda _: actions.pop(0)())
    assert "Permission denied" in refusal.why
    assert (loss.why, loss.last) == ("no answer", taken[-2].time)
    assert resumed.seconds > 0


async def test_what_a_switch_refuses_for_good_is_left_out(fleet: FakeFleet) -> None:
    def act(event: Event) -> None:
        if isinstance(event, events.Sampling):
            fleet.switch.faults.refused["show queuing interface"] = "% Permission denied for the role"

    kinds = (events.Sampling, events.SamplingGap, events.SamplingResumed, events.Sampling)
    (first, _, _, second), taken = await sampled(fleet, *kinds, act=act)
    assert second.series < first.series
    assert second.message.endswith("without nexus_queuing")
    assert not any(series.meter.startswith("queue_") for series in taken[-1].layout)
