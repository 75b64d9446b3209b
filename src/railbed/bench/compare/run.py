"""Run an experiment: two arms in turns, or one arm in each of two visits. An arm's change is a fix on each device."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from railbed.bench.compare.arms import TOO_FEW, Contest, Side, answer, arm_value, find_no_answer, label_arm
from railbed.bench.compare.experiment import Arm, Comparison, Experiment
from railbed.bench.compare.visits import FirstVisit, first_visit_event, time_since
from railbed.bench.schedule import make_schedule
from railbed.bench.site import BenchSite, read_site, site_of
from railbed.bench.suite import Step, Suite
from railbed.bench.trials import (
    BenchProgress,
    measured_findings,
    not_undone_finding,
    omitted_finding,
    run_trials,
    unreachable_finding,
)
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.fleet.change import NotChanged, NotUndone
from railbed.fleet.experiment import temporarily
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.fix import Fix, Persistence, as_steps, set_mtu
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Event, Record
from railbed.probes import ip_link


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChanges:
    """How the arms of an experiment change the devices."""

    cluster: Cluster
    facts: Mapping[str, DeviceFacts]
    planned: Mapping[str, Sequence[Fix]] = field(default_factory=dict)
    """The fixes of arms that `configure` devices, by the name of the arm."""

    def obstacle(self, arms: Sequence[Arm]) -> str:
        """Return why the arms would not differ; empty if they do."""
        for arm in arms:
            if arm.change and arm.change.configure and not self.planned.get(arm.name):
                rules = ", ".join(arm.change.configure)
                return f"there is nothing to change for {arm.name}: no device has a fix for {rules}"
        return ""

    def concerns_switches(self, arm: Arm) -> bool:
        """Whether an arm changes a switch: then it is changed once for all repeats, since each change interrupts it."""
        return any(fix.device in self.cluster.switches for fix in self.planned.get(arm.name, ()))

    def of(self, arm: Arm, nodes: Sequence[str]) -> list[Fix]:
        """Return the fixes that make an arm's change on nodes, and on switches if it concerns them.

        Raise NotChanged if the state to restore is unknown.
        """
        change = arm.change
        if change is None:
            return []
        if change.configure is not None:
            involved = {*nodes, *self.cluster.switches}
            return [fix for fix in self.planned.get(arm.name, ()) if fix.device in involved]
        if change.apply is not None and change.undo is not None:
            return [_fix(node, change.apply, change.undo) for node in nodes]
        return [set_mtu(node, _mtus(self.cluster, self.facts[node], node, change.mtu or 0)) for node in nodes]


def _fix(node: str, apply: str, undo: str) -> Fix:
    return Fix(device=node, apply=as_steps(apply), undo=as_steps(undo), persistence=Persistence.BOOT, interrupts=True)


def _mtus(cluster: Cluster, facts: DeviceFacts, node: str, mtu: int) -> Iterator[tuple[str, int, int]]:
    reading = facts.read(ip_link.PROBE)
    links = reading.facts.links if isinstance(reading, Known) else {}
    for port in cluster.nodes[node].ports:
        if port.netdev not in links:
            raise NotChanged(f"{node} cannot be changed: the MTU of {port.netdev} is unknown")
        yield port.netdev, links[port.netdev].mtu, mtu


@dataclass
class Ongoing:
    """The state of a running experiment, so that an interrupted one can still be judged."""

    unanswered: list[Contest] = field(default_factory=list)
    """Comparisons to be answered in this visit."""
    tests: dict[str, list[str]] = field(default_factory=dict)
    declined: bool = False
    """The user did not agree to the changes."""

    def judge(self) -> Iterator[Record]:
        """Answer every comparison with numbers for both arms."""
        for contest in self.unanswered:
            if contest.a.values and contest.b.values:
                yield from answer(contest)
        yield from measured_findings(self.tests)


async def compare_arms(
    cluster: Cluster,
    fleet: Fleet,
    experiment: Experiment,
    name: str,
    first: FirstVisit | None = None,
    *,
    planned: Mapping[str, Sequence[Fix]] = MappingProxyType({}),
    ongoing: Ongoing | None = None,
) -> AsyncGenerator[Record, None]:
    """Run an experiment on a cluster; `first` is set if this is the second of two visits.

    `planned` has the fixes of arms that configure devices, by the name of the arm.
    """
    ongoing = ongoing or Ongoing()
    facts: dict[str, DeviceFacts] = {}
    async with aclosing(read_site(cluster, fleet, facts)) as events:
        async for event in events:
            yield event
    site = site_of(cluster, facts)
    for node, reason in site.failed.items():
        yield unreachable_finding(node, reason)
    contests = [
        _contest(number, comparison, experiment, site, first)
        for number, comparison in enumerate(experiment.comparisons, 1)
    ]
    yield _announcement(name, experiment, contests)
    for omitted in dict.fromkeys(omitted for side in _sides(contests) for omitted in side.omitted):
        yield omitted_finding(omitted)
    progress = BenchProgress(site=site, first_port=experiment.first_port, tests=ongoing.tests)
    progress.pace.expect(_expected_trials(experiment, contests))
    ongoing.unanswered += contests if experiment.visits == 1 or first is not None else ()
    changes = ArmChanges(cluster=cluster, facts=facts, planned=planned)
    if any(changes.concerns_switches(arm) for arm in (experiment.a, experiment.b)):
        async with aclosing(_measure_in_blocks(fleet, changes, experiment, contests, progress)) as records:
            async for record in records:
                yield record
        ongoing.unanswered = []
        contests = []
    for contest in contests:
        async with aclosing(_measure(fleet, changes, experiment, contest, progress, first)) as records:
            async for record in records:
                yield record
        ongoing.unanswered = [open_contest for open_contest in ongoing.unanswered if open_contest is not contest]
    if experiment.visits == 2 and first is None and any(contest.a.values for contest in contests):
        yield first_visit_event(name, experiment, contests)
    for finding in measured_findings(progress.tests):
        yield finding


def _contest(
    number: int, comparison: Comparison, experiment: Experiment, site: BenchSite, first: FirstVisit | None
) -> Contest:
    """Schedule the arms to be measured in this visit; take the numbers of the other arm from the first visit."""

    def side(arm: Arm, step: Step, *, now: bool) -> Side:
        schedule = make_schedule(Suite(steps=(step.model_copy(update={"repeats": 1}),)), site) if now else None
        return Side(arm=arm, step=step, schedule=schedule)

    a = side(experiment.a, comparison.a, now=first is None)
    b = side(experiment.b, comparison.b, now=experiment.visits == 1 or first is not None)
    if first is not None:
        a.values = first.values_of(number)
    return Contest(number=number, comparison=comparison, a=a, b=b, apart=time_since(first.ended) if first else "")


def _sides(contests: Sequence[Contest]) -> Iterator[Side]:
    for contest in contests:
        yield from contest.now


def _announcement(name: str, experiment: Experiment, contests: Sequence[Contest]) -> Event:
    sides = list(_sides(contests))
    seconds = experiment.repeats * sum(trial.seconds for side in sides for trial in side.trials)
    return events.BenchPlanned(
        subject=name,
        message=f"{name}: about {seconds:.0f} s",
        suite=name,
        trials=experiment.repeats * len(sides),
        seconds=round(seconds, 1),
    )


def _expected_trials(experiment: Experiment, contests: Sequence[Contest]) -> Iterator[tuple[str, float]]:
    for side in _sides(contests):
        for trial in side.trials:
            yield from [(trial.step.test, trial.seconds)] * experiment.repeats


async def _measure(  # noqa: PLR0917  (everything that a turn needs)
    fleet: Fleet,
    changes: ArmChanges,
    experiment: Experiment,
    contest: Contest,
    progress: BenchProgress,
    first: FirstVisit | None,
) -> AsyncGenerator[Record, None]:
    """Measure the arms of this visit, and answer once there are numbers for both."""
    if first is not None:
        for value in contest.a.values.values():
            yield value
        if reason := first.mismatch(contest):
            yield find_no_answer(contest, reason)
            return
    if reason := _obstacle(contest, changes, progress):
        yield find_no_answer(contest, reason)
        return
    async with aclosing(_in_turns(fleet, changes, experiment, contest, progress)) as records:
        async for record in records:
            yield record
    if experiment.visits == 1 or first is not None:
        for record in answer(contest):
            yield record
    elif not contest.a.values:
        yield find_no_answer(contest, TOO_FEW)


def _obstacle(contest: Contest, changes: ArmChanges, progress: BenchProgress) -> str:
    """Return why the arms cannot be measured at all, or would be the same."""
    if progress.left_changed:
        return f"not measured: {progress.left_changed.message}"
    if all(side.trials for side in contest.now):
        return changes.obstacle([side.arm for side in contest.now])
    reasons = [omitted.reason for side in contest.now for omitted in side.omitted]
    return f"it cannot be measured here: {', '.join(dict.fromkeys(reasons))}" if reasons else TOO_FEW


async def _in_turns(
    fleet: Fleet,
    changes: ArmChanges,
    experiment: Experiment,
    contest: Contest,
    progress: BenchProgress,
) -> AsyncGenerator[Record, None]:
    """Measure the arms in turns, and swap the order each time so that neither always comes first."""
    for repeat in range(1, experiment.repeats + 1):
        for side in contest.now if repeat % 2 else contest.now[::-1]:
            block = Block(side.arm, [(contest, repeat)])
            async with aclosing(_measure_block(fleet, changes, block, progress)) as records:
                async for record in records:
                    yield record
            if progress.left_changed:
                return


async def _measure_in_blocks(
    fleet: Fleet,
    changes: ArmChanges,
    experiment: Experiment,
    contests: Sequence[Contest],
    progress: BenchProgress,
) -> AsyncGenerator[Record, None]:
    """Measure all comparisons while an arm is in force: a switch is changed once for each arm, not for each repeat."""
    measured: list[Contest] = []
    for contest in contests:
        contest.in_blocks = True
        if reason := _obstacle(contest, changes, progress):
            yield find_no_answer(contest, reason)
        else:
            measured.append(contest)
    for block in _blocks(experiment, measured):
        async with aclosing(_measure_block(fleet, changes, block, progress)) as records:
            async for record in records:
                yield record
        if progress.left_changed:
            break
    for contest in measured:
        for record in answer(contest):
            yield record


@dataclass(frozen=True, slots=True)
class Block:
    """What is measured while an arm is in force: comparisons, each with the number of its repeat."""

    arm: Arm
    turns: Sequence[tuple[Contest, int]]


def _blocks(experiment: Experiment, contests: Sequence[Contest]) -> Iterator[Block]:
    """Yield the blocks; the arm that changes nothing is measured half before and half after the other."""

    def block(arm: Arm, repeats: range) -> Block:
        return Block(arm, [(contest, repeat) for repeat in repeats for contest in contests])

    a, b, last = experiment.a, experiment.b, experiment.repeats + 1
    plain, changed = (b, a) if a.change and not b.change else (a, b)
    if not contests:
        return
    if plain.change:
        yield from (block(plain, range(1, last)), block(changed, range(1, last)))
        return
    middle = last // 2 + 1
    yield from (block(plain, range(1, middle)), block(changed, range(1, last)), block(plain, range(middle, last)))


async def _measure_block(
    fleet: Fleet, changes: ArmChanges, block: Block, progress: BenchProgress
) -> AsyncGenerator[Record, None]:
    """Change the devices for an arm, measure, and undo the change."""
    sides = [(contest, contest.side_of(block.arm), repeat) for contest, repeat in block.turns]
    nodes = sorted({node for _, side, _ in sides for trial in side.trials for node in trial.nodes})
    try:
        async with temporarily(fleet, changes.of(block.arm, nodes)):
            for contest, side, repeat in sides:
                async with aclosing(_measure_turn(fleet, contest, side, repeat, progress)) as records:
                    async for record in records:
                        yield record
    except NotUndone as error:
        if _is_interrupt(error.__context__):
            raise
        progress.left_changed = error
    except DeviceError as error:
        yield events.Notice(subject=block.arm.name, message=error.message)
    if unfinished := progress.left_changed:
        for node, reason in unfinished.reasons.items():
            yield not_undone_finding(node, block.arm.name, reason, unfinished.hint)


async def _measure_turn(
    fleet: Fleet, contest: Contest, side: Side, repeat: int, progress: BenchProgress
) -> AsyncGenerator[Record, None]:
    """Measure one arm of one comparison once."""
    trials = [replace(trial, repeat=repeat, number=_next_number(progress)) for trial in side.trials]
    start = len(progress.measured)
    async with aclosing(run_trials(fleet, trials, progress)) as records:
        async for record in records:
            yield label_arm(record, side.arm.name)
    value = arm_value(trials, progress.measured[start:], contest.comparison.measure)
    if value is not None:
        yield contest.add(side, repeat, value)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether the run is being cancelled, as by Ctrl-C: nobody reads our records after that."""
    return error is not None and not isinstance(error, Exception)


def _next_number(progress: BenchProgress) -> int:
    progress.trials += 1
    return progress.trials
