"""Samples one switch: reads its counters with the probes that check uses, every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeGuard

from railbed.errors import DeviceError
from railbed.fleet.fleet import Fleet
from railbed.fleet.sample.intake import Intake
from railbed.fleet.sample.switch_series import series_of
from railbed.fleet.worker import Call, Failed, Returned, Worker
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import MISSING, Sample, SeriesKey
from railbed.model.output import Output
from railbed.model.probe import Probe
from railbed.model.reading import Unknown
from railbed.model.record import Event
from railbed.probes.nexus import errors, interface, pfc, pfc_detail, queuing, watchdog
from railbed.probes.outputs import parse_output
from railbed.transport.base import Command

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
