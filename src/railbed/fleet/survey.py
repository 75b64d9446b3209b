"""Reads probes from a whole cluster: everything once, then again what is to be seen moving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from railbed.fleet.fleet import Answer, Fleet
from railbed.model.cluster import Cluster
from railbed.model.output import Output
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.probes.interpret import interpret
from railbed.transport.base import Command

SECONDS_BETWEEN_READINGS = 1.0


async def survey(
    fleet: Fleet, cluster: Cluster, probes: Iterable[Probe[Any]], *, only: Collection[str] | None = None
) -> AsyncGenerator[DeviceFacts, None]:
    """Yield what is known of a device each time it has answered: once, or twice where probes are read twice."""
    ordered = sorted(probes, key=lambda probe: (not probe.early, not probe.twice, probe.timeout))
    by_name = {probe.name: probe for probe in ordered}
    known: dict[str, DeviceFacts] = {}
    last_counted = 0.0
    async with aclosing(fleet.run(_commands(fleet, cluster, ordered, only))) as answers:
        async for answer in answers:
            known[answer.device] = _facts(answer, by_name)
            counted = [output.received for output in answer.outputs if by_name[output.key].twice]
            last_counted = max([last_counted, *counted])
            yield known[answer.device]

    answering = {device for device, facts in known.items() if not facts.failure}
    again = _commands(fleet, cluster, [probe for probe in ordered if probe.twice], only=answering)
    again = {device: commands for device, commands in again.items() if commands}
    if not again:
        return
    # A recording was heard long ago: it is not waited for.
    waited = max(0.0, time.time() - last_counted)
    await asyncio.sleep(max(0.0, SECONDS_BETWEEN_READINGS - waited))
    async with aclosing(fleet.run(again)) as answers:
        async for answer in answers:
            known[answer.device] = _joined(known[answer.device], _facts(answer, by_name))
            yield known[answer.device]


def _commands(
    fleet: Fleet, cluster: Cluster, probes: Sequence[Probe[Any]], only: Collection[str] | None = None
) -> Mapping[str, Sequence[Command]]:
    devices = [target.name for target in fleet.targets if only is None or target.name in only]
    return {
        device: [_command(probe, script) for probe, script in _scripts(cluster, device, probes)] for device in devices
    }


def _scripts(cluster: Cluster, device: str, probes: Sequence[Probe[Any]]) -> Iterable[tuple[Probe[Any], str]]:
    for probe in probes:
        script = probe.command_for(cluster, device)
        if script:
            yield probe, script


def _command(probe: Probe[Any], script: str) -> Command:
    return Command(key=probe.name, script=script, timeout=probe.timeout, tool=probe.tool, as_root=probe.needs_root)


def _facts(answer: Answer, probes: Mapping[str, Probe[Any]]) -> DeviceFacts:
    return DeviceFacts(
        device=answer.device,
        readings={output.key: (_reading(probes, output),) for output in answer.outputs},
        failure=answer.failure,
    )


def _reading(probes: Mapping[str, Probe[Any]], output: Output) -> Known[object] | Unknown:
    return interpret(probes[output.key], output)


def _joined(first: DeviceFacts, second: DeviceFacts) -> DeviceFacts:
    readings = {name: reading + second.readings.get(name, ()) for name, reading in first.readings.items()}
    return DeviceFacts(device=first.device, readings=readings, failure=second.failure)
