"""Samples one switch: reads its counters with the probes that check uses, every few seconds, as series."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeGuard

from railbed.errors import DeviceError
from railbed.fleet.fleet import Fleet
from railbed.fleet.sample.intake import Intake
from railbed.fleet.worker import Call, Failed, Returned, Worker
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import MISSING, Sample, SeriesKey
from railbed.model.probe import Probe
from railbed.model.reading import Output, Unknown
from railbed.model.record import Event
from railbed.parsing.nexus.queuing import PortQueues, SwitchQueues
from railbed.probes.nexus import errors, interface, pfc, pfc_detail, queuing, watchdog
from railbed.probes.nexus.errors import PortErrors
from railbed.probes.nexus.interface import Interfaces
from railbed.probes.nexus.pfc import SwitchPfc
from railbed.probes.nexus.pfc_detail import SwitchPfcDetail
from railbed.probes.nexus.watchdog import PortWatchdog
from railbed.probes.outputs import parse_output
from railbed.transport.base import Command

OF_QUEUES = {
    "tx_bytes": "queue_tx_bytes",
    "tx_packets": "queue_tx_packets",
    "drop_packets": "queue_drop_packets",
    "ecn_packets": "queue_ecn_marked_packets",
    "depth_bytes": "queue_depth_bytes",
}
OF_WATCHDOG = {"shutdowns": "watchdog_shutdowns", "restored": "watchdog_restores"}
OF_INTERFACES = {"rx_bytes": "switch_rx_bytes", "tx_bytes": "switch_tx_bytes"}
OF_ERRORS = {"fcs_err": "switch_crc_errors", "stomped_crc": "switch_stomped_packets", "giants": "switch_giants"}
PHYSICAL, INTERNAL = "Ethernet", "ii"
"""Between the parts of a modular switch, or the chips of a fixed one, are ports as well, such as `ii1/1/1`."""
Values = Iterator[tuple[SeriesKey, int]]


def series_of(switch: str, facts: Mapping[str, object], cabled: Collection[str]) -> Values:
    """Yield the value of every series of the ports in the cluster file, and of all others that have a link."""
    linked = {
        name
        for reading in facts.values()
        if isinstance(reading, Interfaces)
        for name, port in reading.ports.items()
        if port.up and name.startswith(PHYSICAL)
    }
    ports = {*cabled, *linked}
    for reading in facts.values():
        for meter, port, part, value in _values(reading):
            if port in ports or port.startswith(INTERNAL):
                yield SeriesKey(switch, meter, port, part), value


def _values(reading: object) -> Iterator[tuple[str, str, str, int]]:
    """Yield meter, port, part and value of everything that a reading counts."""
    match reading:
        case SwitchQueues(ports=queues):
            for name, port in queues.items():
                yield from ((meter, name, part, value) for meter, part, value in _of_queues(port))
        case SwitchPfc(ports=pfc):
            for name, pauses in pfc.items():
                yield "switch_pause_rx_frames", name, "", pauses.received
                yield "switch_pause_tx_frames", name, "", pauses.sent
        case SwitchPfcDetail():
            yield from _of_priorities(reading)
        case PortWatchdog():
            yield from _of_watchdog(reading)
        case PortErrors(ports=counters):
            yield from _name_counters(OF_ERRORS, counters)
        case Interfaces(ports=interfaces):
            yield from _name_counters(
                OF_INTERFACES, {name: interface.counters for name, interface in interfaces.items()}
            )


def _of_priorities(detail: SwitchPfcDetail) -> Iterator[tuple[str, str, str, int]]:
    for name, frames in detail.ports.items():
        for priority, value in enumerate(frames.received):
            yield "switch_priority_pause_rx_frames", name, str(priority), value
        for priority, value in enumerate(frames.sent):
            yield "switch_priority_pause_tx_frames", name, str(priority), value


def _of_watchdog(watchdog: PortWatchdog) -> Iterator[tuple[str, str, str, int]]:
    for name, port in watchdog.ports.items():
        for group, queue in port.queues.items():
            yield from _name_counters(OF_WATCHDOG, {name: queue.counters}, group)


def _name_counters(
    meters: Mapping[str, str], ports: Mapping[str, Mapping[str, int]], part: str = ""
) -> Iterator[tuple[str, str, str, int]]:
    for port, counters in ports.items():
        for counter, meter in meters.items():
            if counter in counters:
                yield meter, port, part, counters[counter]


def _of_queues(port: PortQueues) -> Iterator[tuple[str, str, int]]:
    for group, queue in port.queues.items():
        if group.isdigit():  # the others are the switch's own
            for counter, meter in OF_QUEUES.items():
                if counter in queue.counters:
                    yield meter, group, queue.counters[counter]
    wred = port.ingress.get("wred_drop_packets")
    if wred is not None:
        yield "queue_wred_drop_packets", "", wred
    if drops := [value for name, value in port.ingress.items() if name != "wred_drop_packets"]:
        yield "ingress_drop_packets", "", sum(drops)


PROBES: Mapping[str, Probe[Any]] = {
    probe.name: probe
    for probe in (queuing.PROBE, pfc.PROBE, pfc_detail.PROBE, watchdog.PROBE, errors.PROBE, interface.PROBE)
}
SECONDS = 10.0
"""Time limit for each command and for parsing its output."""
LAST_RETRY_SECONDS = 30.0
PATIENCE = 3
"""After this many refusals in a row of a command that used to work, the switch is sampled without it."""
LARGEST = (1 << 63) - 1


@dataclass
class SwitchSampler:
    """Reads one switch again and again."""

    cluster: Cluster
    switch: str
    interval: float
    intake: Intake
    _layout: tuple[SeriesKey, ...] = ()
    _answered: set[str] = field(default_factory=set)
    """Probes that the switch has answered before."""
    _refusals: int = 0

    async def keep(self, fleet: Fleet) -> None:
        """Sample until this is cancelled; a switch that refuses is tried again, less and less often."""
        pause = due = 0.0
        async with Worker({name: partial(_facts, probe) for name, probe in PROBES.items()}) as worker:
            while True:
                due = max(due + self.interval, time.monotonic())
                why = await self._sample(fleet, worker)
                if why:
                    self.intake.interrupt(why)
                    pause = min(max(self.interval, 2 * pause), LAST_RETRY_SECONDS)
                else:
                    pause = 0.0
                await asyncio.sleep(max(pause, due - time.monotonic()))

    async def _sample(self, fleet: Fleet, worker: Worker) -> str:
        """Read the switch once; return why that failed, or an empty string."""
        start = time.time()
        try:
            commands = [_command(self.cluster, self.switch, probe) for probe in PROBES.values()]
            outputs = [await fleet.ask(self.switch, command) for command in commands]
        except DeviceError as error:
            return error.message
        middle = (start + time.time()) / 2
        calls = [Call(name=output.key, argument=output, seconds=SECONDS) for output in outputs]
        results = await worker.run(calls, seconds=SECONDS)
        facts = {call.name: result.value for call, result in zip(calls, results, strict=True) if _is_known(result)}
        problems = [_reason(result) for result in results if not _is_known(result)]
        if not facts:
            return problems[0]
        if why := self._newly_refused(facts, problems):
            return why
        self._take(middle, facts)
        return ""

    def _newly_refused(self, facts: Mapping[str, object], problems: Sequence[str]) -> str:
        """Return why something that the switch used to answer is missing; if that persists, go on without it."""
        missing = self._answered - facts.keys()
        self._refusals = self._refusals + 1 if missing else 0
        if missing and self._refusals < PATIENCE:
            return "; ".join(problems)
        self._answered = set(facts)
        return ""

    def _take(self, moment: float, facts: Mapping[str, object]) -> None:
        switch = self.cluster.switches[self.switch]
        values = dict(series_of(self.switch, facts, {port.name for port in switch.ports}))
        if values.keys() != set(self._layout):
            self._layout = tuple(values)
        row = [values[series] if values[series] <= LARGEST else MISSING for series in self._layout]
        self.intake.add(Sample(self.switch, moment, self._layout, row), self._describe)

    def _describe(self) -> Event:
        refused = [name for name in PROBES if name not in self._answered]
        without = f", without {', '.join(refused)}" if refused else ""
        message = f"{len(self._layout)} series every {self.interval:g} s{without}"
        return events.Sampling(subject=self.switch, message=message, interval=self.interval, series=len(self._layout))


def _is_known(result: Returned | Failed) -> TypeGuard[Returned]:
    return isinstance(result, Returned) and not isinstance(result.value, Unknown)


def _reason(result: Returned | Failed) -> str:
    return (
        str(result.value.reason) if isinstance(result, Returned) else f"its output could not be parsed: {result.reason}"
    )


def _command(cluster: Cluster, switch: str, probe: Probe[Any]) -> Command:
    script = probe.command_for(cluster, switch)
    return Command(key=probe.name, script=script, timeout=SECONDS, recorded=False)


def _facts(probe: Probe[Any], output: Output) -> object:
    """Return the facts, or why there are none."""
    reading = parse_output(probe, output)
    return reading if isinstance(reading, Unknown) else reading.facts
