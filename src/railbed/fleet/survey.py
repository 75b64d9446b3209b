"""Reads probes from a whole cluster: each device by itself, then nodes test other nodes; counters are read again.

Nodes test each other when all devices have been read, a few nodes at a time, and tests that timed out are repeated
after that, so that our own load is not mistaken for a fault of the fabric.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Any

from railbed.fleet.fleet import DeviceAnswer, Fleet
from railbed.fleet.worker import Call, Failed, Returned, Worker, call_here
from railbed.model.cluster import Cluster, DeviceKind
from railbed.model.probe import Address, Pair, Pairs, PairTest, Probe
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.probes.outputs import EVIDENCE_CHARS, parse_output
from railbed.transport.base import Command, Target

SECONDS_BETWEEN_READINGS = 1.0
SMALL_BYTES = 4096
"""Up to this size an output is parsed in this process: even a quadratic parser needs only half a second for it. Most
outputs are smaller, and sending one to another process takes longer than parsing it."""
TESTING_AT_ONCE = 8
"""Nodes that test others at the same time."""
AGAIN_AT_ONCE = 4
"""Devices that are read or tested again at the same time."""
AGAIN_SECONDS = 40.0
"""Time limit for repeating all tests that timed out."""
NOT_AGAIN = "timed out when many tests did, and there was no time to repeat it"
UNFINISHED = "timed out, and the repeated test was not completed"


def choose_targets(fleet: Fleet, probes: Iterable[Probe[Any]]) -> list[Target]:
    """Return the devices that a survey reads: every node, and the switches if a probe runs on them."""
    kinds = {"node", *(probe.runs_on for probe in probes)}
    return [target for target in fleet.targets if target.kind in kinds]


async def survey(
    fleet: Fleet,
    cluster: Cluster,
    probes: Iterable[Probe[Any]],
    *,
    only: Collection[str] | None = None,
    every_pair: bool = False,
    again: bool = False,
) -> AsyncGenerator[DeviceFacts, None]:
    """Yield the facts of a device each time it has answered, with everything known so far.

    `again` reads counters a second time, a second later, to see which of them increase.
    """
    ordered = sorted(probes, key=lambda probe: (not probe.early, not probe.twice, probe.timeout))
    targets = [target for target in choose_targets(fleet, ordered) if only is None or target.name in only]
    async with Worker({probe.name: partial(_parse, probe) for probe in ordered}) as worker:
        work = _Survey(fleet, cluster, ordered, worker, every_pair=every_pair)
        phases = [work.read_devices(targets), work.test_pairs(), work.test_again()]
        for phase in [*phases, work.read_counters()] if again else phases:
            async with aclosing(phase) as answers:
                async for facts in answers:
                    yield facts


async def read_facts(
    fleet: Fleet,
    cluster: Cluster,
    probes: Sequence[Probe[Any]],
    *,
    known: Mapping[str, DeviceFacts] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, DeviceFacts]:
    """Return the facts of probes by device; a device that `known` has all of them for is not read again."""
    facts = {name: have for name, have in (known or {}).items() if _covers(have, probes)}
    names = [target.name for target in choose_targets(fleet, probes) if only is None or target.name in only]
    if lacking := [name for name in names if name not in facts]:
        async with aclosing(survey(fleet, cluster, probes, only=lacking)) as answers:
            async for answer in answers:
                facts[answer.device] = answer
    return {name: facts[name] for name in names if name in facts}


def _covers(facts: DeviceFacts, probes: Iterable[Probe[Any]]) -> bool:
    return all(probe.name in facts.readings for probe in probes)


class _Survey:
    """The facts so far, and the phases that add to them."""

    def __init__(
        self, fleet: Fleet, cluster: Cluster, probes: Sequence[Probe[Any]], worker: Worker, *, every_pair: bool
    ) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._by_name = {probe.name: probe for probe in probes}
        self._parser = _Parser(self._by_name, worker, seconds=fleet.timeout)
        self._single = [probe for probe in probes if not isinstance(probe.command, PairTest)]
        self._kinds: dict[str, DeviceKind] = {target.name: target.kind for target in fleet.targets}
        self._tests = {probe.name: probe.command for probe in probes if isinstance(probe.command, PairTest)}
        self._every_pair = every_pair
        self._pairs = Pairs(cluster)
        self._known: dict[str, DeviceFacts] = {}
        self._last_counted = 0.0

    async def read_devices(self, targets: Sequence[Target]) -> AsyncGenerator[DeviceFacts, None]:
        """Read each device by itself; one that timed out is read again when the others are done."""
        commands = {target.name: self._commands(target.name, self._single) for target in targets}
        late: dict[str, DeviceAnswer] = {}
        async with aclosing(self._fleet.run(commands)) as answers:
            async for answer in answers:
                if answer.failure and answer.failure.timed_out:
                    late[answer.device] = answer
                else:
                    yield await self._add(answer)
        again = {device: commands[device] for device in late}
        async with aclosing(self._fleet.run(again, at_once=AGAIN_AT_ONCE)) as answers:
            async for answer in answers:
                yield await self._add(_fuller(late[answer.device], answer))

    async def test_pairs(self) -> AsyncGenerator[DeviceFacts, None]:
        """Have nodes test others, a few nodes at a time."""
        nodes = [device for device in self._answering() if self._kinds[device] == "node"]
        pairs = {node: list(self._pairs.of(node, every=self._every_pair)) for node in nodes}
        commands = {device: self._test_commands(dict.fromkeys(self._tests, pairs[device])) for device in pairs}
        async with aclosing(self._fleet.run(_nonempty(commands), at_once=TESTING_AT_ONCE)) as answers:
            async for answer in answers:
                yield await self._add(answer)

    async def test_again(self) -> AsyncGenerator[DeviceFacts, None]:
        """Repeat tests that timed out, with a longer time-out; if time runs out, the result is unknown.

        If no repeated test passed, load is not the cause, and the first results stand.
        """
        suspects = {device: doubts for device in self._answering() if (doubts := self._doubts(device))}
        commands = {device: self._test_commands(doubts, patient=True) for device, doubts in suspects.items()}
        waiting, cleared = dict(suspects), False
        deadline = time.monotonic() + AGAIN_SECONDS
        async with aclosing(self._fleet.run(commands, at_once=AGAIN_AT_ONCE)) as answers:
            async for answer in answers:
                doubts = waiting.pop(answer.device)
                yield await self._settle(answer)
                cleared = cleared or _count(self._doubts(answer.device)) < _count(doubts)
                if time.monotonic() > deadline:
                    break
        for device, doubts in waiting.items() if cleared else ():
            yield self._doubt(device, doubts, NOT_AGAIN)

    async def _settle(self, answer: DeviceAnswer) -> DeviceFacts:
        """Add a repeated test; if it has no result, the first is in doubt. Old recordings have no repeated test."""
        facts = await self._add(answer)
        inconclusive = [
            output.key
            for output in answer.outputs
            if output.sent and isinstance(facts.readings[output.key][-1], Unknown)
        ]
        if answer.failure:
            inconclusive = list(self._tests)
        return self._doubt(answer.device, inconclusive, UNFINISHED) if inconclusive else facts

    def _doubt(self, device: str, probes: Iterable[str], reason: str) -> DeviceFacts:
        unknown = Unknown(reason=reason, remedy="run `railbed check` again")
        facts = self._known[device]
        readings = {**facts.readings, **dict.fromkeys(probes, (unknown,))}
        self._known[device] = replace(facts, readings=readings)
        return self._known[device]

    async def read_counters(self) -> AsyncGenerator[DeviceFacts, None]:
        """Read counters a second time."""
        counted = [probe for probe in self._single if probe.twice]
        commands = _nonempty({device: self._commands(device, counted) for device in self._answering()})
        if not commands:
            return
        # Counters in a recording do not change: there is nothing to wait for.
        waited = max(0.0, time.time() - self._last_counted)
        await asyncio.sleep(max(0.0, SECONDS_BETWEEN_READINGS - waited))
        async with aclosing(self._fleet.run(commands)) as answers:
            async for answer in answers:
                yield await self._add(answer)

    def _answering(self) -> list[str]:
        return [device for device, facts in self._known.items() if not facts.failure]

    def _commands(self, device: str, probes: Iterable[Probe[Any]]) -> list[Command]:
        suitable = [probe for probe in probes if probe.runs_on == self._kinds[device]]
        scripts = [(probe, probe.command_for(self._cluster, device)) for probe in suitable]
        return [_command(probe, script) for probe, script in scripts if script]

    def _test_commands(self, pairs: Mapping[str, Sequence[Pair]], *, patient: bool = False) -> list[Command]:
        """Return the commands of one node, from the pairs that each probe is to test."""
        scripts = {name: self._tests[name].command(self._cluster, some, patient) for name, some in pairs.items()}
        return [_command(self._by_name[name], script) for name, script in scripts.items() if script]

    def _doubts(self, device: str) -> dict[str, list[Pair]]:
        """Return the pairs of a node that timed out last, by probe, except to peers that do not answer us either."""
        doubts = {}
        for name, test in self._tests.items():
            readings = self._known[device].readings.get(name, ())
            last = readings[-1] if readings else None
            late = test.timed_out(last.facts) if isinstance(last, Known) else ()
            peers = self._pairs.to(device, _addresses(late)) if late else ()
            if pairs := [pair for pair in peers if self._answers(pair.peer)]:
                doubts[name] = pairs
        return doubts

    def _answers(self, device: str) -> bool:
        return device in self._known and not self._known[device].failure

    async def _add(self, answer: DeviceAnswer) -> DeviceFacts:
        counted = [output.received for output in answer.outputs if self._by_name[output.key].twice]
        self._last_counted = max([self._last_counted, *counted])
        results = await self._parser.parse(answer.outputs)
        readings = {
            output.key: (_reading(output, result),) for output, result in zip(answer.outputs, results, strict=True)
        }
        return self._join(DeviceFacts(device=answer.device, readings=readings, failure=answer.failure))

    def _join(self, new: DeviceFacts) -> DeviceFacts:
        """Append new readings to those that are known."""
        known = self._known.get(new.device, DeviceFacts(device=new.device)).readings
        readings = {name: known.get(name, ()) + new.readings.get(name, ()) for name in {**known, **new.readings}}
        self._known[new.device] = DeviceFacts(device=new.device, readings=readings, failure=new.failure)
        return self._known[new.device]


_Printed = tuple[str, bytes, bytes, int | None, str, bool]
"""What a result of parsing depends on: all of an output but its device, command and times."""


class _Parser:
    """Parses outputs. Nodes print much that is equal: it is parsed only once, and its facts are kept only once."""

    def __init__(self, probes: Mapping[str, Probe[Any]], worker: Worker, *, seconds: float) -> None:
        self._probes = probes
        self._worker = worker
        self._seconds = seconds
        """How long the outputs of a device may take: as long as the device had to answer."""
        self._returned: dict[_Printed, Returned] = {}

    async def parse(self, outputs: Sequence[Output]) -> list[Returned | Failed]:
        """Return the result of each of a device's outputs."""
        printed = [
            (output.key, output.stdout, output.stderr, output.exit, output.failure, output.truncated)
            for output in outputs
        ]
        new = {key: output for key, output in zip(printed, outputs, strict=True) if key not in self._returned}
        results = await self._parse_apart({key: output for key, output in new.items() if _is_large(output)})
        results |= {
            key: call_here(partial(_parse, self._probes[output.key]), output)
            for key, output in new.items()
            if not _is_large(output)
        }
        self._returned |= {key: result for key, result in results.items() if isinstance(result, Returned)}
        return [results.get(key) or self._returned[key] for key in printed]

    async def _parse_apart(self, outputs: Mapping[_Printed, Output]) -> dict[_Printed, Returned | Failed]:
        limits = {name: min(probe.timeout, self._seconds / 2) for name, probe in self._probes.items()}
        calls = [Call(name=output.key, argument=output, seconds=limits[output.key]) for output in outputs.values()]
        return dict(zip(outputs, await self._worker.run(calls, seconds=self._seconds), strict=True))


def _is_large(output: Output) -> bool:
    return len(output.stdout) > SMALL_BYTES


def _parse(probe: Probe[Any], output: Output) -> object:
    """Return the facts, or why there are none, without the output: the caller has it."""
    reading = parse_output(probe, output)
    return reading.facts if isinstance(reading, Known) else reading


def _reading(output: Output, result: Returned | Failed) -> Known[object] | Unknown:
    match result:
        case Returned(value=Unknown() as unknown):
            return unknown
        case Returned(value=facts):
            return Known(facts=facts, output=output)
    return Unknown(
        reason=f"railbed's parser of {output.key} {result.reason}",
        remedy="please report it, with a recording (--record DIR)",
        evidence=output.stdout[:EVIDENCE_CHARS].decode("utf-8", "replace"),
    )


def _addresses(texts: Iterable[str]) -> set[Address]:
    """Return the addresses among texts that a device printed."""
    addresses: set[Address] = set()
    for text in texts:
        with suppress(ValueError):
            addresses.add(ip_address(text))
    return addresses


def _command(probe: Probe[Any], script: str) -> Command:
    return Command(key=probe.name, script=script, timeout=probe.timeout, tool=probe.tool, as_root=probe.needs_root)


def _fuller(first: DeviceAnswer, second: DeviceAnswer) -> DeviceAnswer:
    """Return the answer with more outputs: a device that froze half-way may not even accept a second login."""
    return first if second.failure and len(second.outputs) <= len(first.outputs) else second


def _nonempty(commands: Mapping[str, Sequence[Command]]) -> dict[str, Sequence[Command]]:
    return {device: some for device, some in commands.items() if some}


def _count(doubts: Mapping[str, Sequence[Pair]]) -> int:
    return sum(map(len, doubts.values()))
