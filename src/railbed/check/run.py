"""The verb: read what the rules need from every device, then judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from railbed.check.book import CHECK_BOOK, probes_needed
from railbed.check.rules import bmc_reachable, reachable
from railbed.fleet import Fleet, choose_targets, survey
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.events.general import progress
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import WRONG, Event, Record, Verdict
from railbed.model.text import plural
from railbed.parsing.lines import TextFacts
from railbed.rules.engine import judge
from railbed.rules.rule import Rule
from railbed.rules.site import Site
from railbed.transport.base import Target

MOST_LINES = 100
"""How many lines of an output that are not understood are recorded."""


async def check(
    cluster: Cluster,
    fleet: Fleet,
    checks: Sequence[Rule[Any]],
    *,
    extra_probes: Iterable[Probe[Any]] = (),
    devices: dict[str, DeviceFacts] | None = None,
    every_pair: bool = False,
    again: bool = True,
    runs: Mapping[str, str] | None = None,
) -> AsyncGenerator[Record, None]:
    """Yield an event per device read, then the findings.

    Extra probes are read for the run's record, and for a caller that passes `devices`, which gets all facts. Without
    `again`, counters are read once: enough for rules that do not ask which of them increase. `runs` has the names of
    the runs in progress that were started here, by the names of their jobs.
    """
    probes = {probe.name: probe for probe in (*probes_needed(checks, cluster), *extra_probes)}
    devices = {} if devices is None else devices
    reading = read_devices(cluster, fleet, probes.values(), devices, every_pair=every_pair, again=again)
    async with aclosing(reading) as records:
        async for record in records:
            yield record
    site = Site(cluster, devices, runs=runs)
    for finding in judge(CHECK_BOOK, site, checks):
        yield finding
    # Devices that did not answer are always reported, even if other rules were chosen.
    for rule in (reachable.RULE, bmc_reachable.RULE):
        for finding in judge(CHECK_BOOK, site, [rule]) if rule not in checks else ():
            if finding.verdict in WRONG or (rule is reachable.RULE and finding.verdict is not Verdict.OK):
                yield finding


async def read_devices(
    cluster: Cluster,
    fleet: Fleet,
    probes: Collection[Probe[Any]],
    devices: dict[str, DeviceFacts],
    *,
    every_pair: bool = False,
    again: bool = True,
) -> AsyncGenerator[Record, None]:
    """Fill `devices` with the facts of every device; yield an event for each that was read."""
    targets = choose_targets(fleet, probes)
    names = [target.name for target in targets]
    yield events.ReadingStarted(message=f"reading {_count(targets)}", devices=len(names), names=names)
    async with aclosing(survey(fleet, cluster, probes, every_pair=every_pair, again=again)) as answers:
        async for facts in answers:
            is_new = facts.device not in devices
            devices[facts.device] = facts
            if is_new:
                yield device_read(facts)
                if len(devices) == len(names):
                    yield progress(f"nodes test each other{', and counters are read again' if again else ''}")


def _count(targets: Sequence[Target]) -> str:
    kinds = Counter(target.kind for target in targets)
    counts = [plural(kinds["node"], "node")]
    counts += [plural(kinds["switch"], "switch", "switches")] if kinds["switch"] else []
    counts += [plural(kinds["bmc"], "BMC")] if kinds["bmc"] else []
    return " and ".join(filter(None, (", ".join(counts[:-1]), counts[-1])))


def device_read(facts: DeviceFacts) -> Event:
    """Return the event that a device was read, or why not."""
    message = facts.failure.reason if facts.failure else plural(len(facts.readings), "probe")
    lines = dict(_not_understood(facts))
    return events.DeviceRead(
        subject=facts.device, message=message, ok=facts.failure is None, not_understood=lines or None
    )


def _not_understood(facts: DeviceFacts) -> Iterator[tuple[str, tuple[str, ...]]]:
    for probe, (first, *_) in facts.readings.items():
        known = first.facts if isinstance(first, Known) else None
        if isinstance(known, TextFacts) and known.not_understood:
            yield probe, known.not_understood[:MOST_LINES]
