"""Experiments, whose arms configure devices: they get their changes from the plan of configure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from railbed.bench.compare.experiment import Arm, Experiment
from railbed.bench.compare.run import Ongoing, compare_arms
from railbed.bench.compare.visits import FirstVisit
from railbed.catalog import choose
from railbed.check.book import CHECK_BOOK, probes_needed
from railbed.check.run import read_devices
from railbed.configure.plan import make_plan
from railbed.configure.planned import names_of, pauses
from railbed.configure.run import OWN_PROBES, planned_event
from railbed.fleet import Fleet
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.fix import Fix
from railbed.model.reading import DeviceFacts
from railbed.model.record import Record
from railbed.rules.engine import judge
from railbed.rules.rule import Rule
from railbed.rules.site import Site


async def run_experiment(
    cluster: Cluster,
    fleet: Fleet,
    experiment: Experiment,
    name: str,
    first: FirstVisit | None,
    *,
    ongoing: Ongoing,
    confirm: Callable[[str], Awaitable[bool]],
) -> AsyncGenerator[Record, None]:
    """Plan the changes of the arms, ask whether to make them, then measure the arms."""
    planned: dict[str, Sequence[Fix]] = {}
    async with aclosing(_plan_arms(cluster, fleet, experiment, planned)) as records:
        async for record in records:
            yield record
    if any(planned.values()) and not await confirm(_question(planned)):
        ongoing.declined = True
        yield events.Notice(message="nothing was changed")
        return
    measuring = compare_arms(cluster, fleet, experiment, name, first, planned=planned, ongoing=ongoing)
    async with aclosing(measuring) as records:
        async for record in records:
            yield record


async def _plan_arms(
    cluster: Cluster, fleet: Fleet, experiment: Experiment, planned: dict[str, Sequence[Fix]]
) -> AsyncGenerator[Record, None]:
    """Yield the changes of the arms that configure devices, and fill `planned` with their fixes.

    A change that needs a person's decision is left out, as it is without `configure --rule`.
    """
    rules = {arm.name: _rules(arm) for arm in (experiment.a, experiment.b) if arm.change and arm.change.configure}
    if not rules:
        return
    devices: dict[str, DeviceFacts] = {}
    needed = probes_needed([rule for chosen in rules.values() for rule in chosen], cluster)
    probes = {probe.name: probe for probe in (*needed, *OWN_PROBES)}
    async with aclosing(read_devices(cluster, fleet, probes.values(), devices)) as records:
        async for record in records:
            yield record
    site = Site(cluster, devices)
    for arm, chosen in rules.items():
        plan = make_plan(site, judge(CHECK_BOOK, site, chosen), only=(), named=(), lasting=False)
        for change in plan.records():
            yield change
        yield planned_event(plan)
        planned[arm] = [device.fix for device in plan.devices]


def _question(planned: Mapping[str, Sequence[Fix]]) -> str:
    """Return the question to the user: what is changed for which arm, and what that interrupts."""
    parts = [
        f"change {names_of([fix.device for fix in fixes])} for {arm}, and restore them afterwards{pauses(fixes)}"
        for arm, fixes in planned.items()
        if fixes
    ]
    return f"{'; '.join(parts)}; the same when they are restored?"


def _rules(arm: Arm) -> list[Rule[Any]]:
    names = arm.change.configure if arm.change and arm.change.configure else ()
    return [
        choose(CHECK_BOOK.rules, name, kind="rule", listing="docs/reference/checks.md lists them") for name in names
    ]
