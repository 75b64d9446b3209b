"""The course of a training from the messages of its ranks: restarts, waiting, phases, the end.

A restart costs the time in which training made no new progress. It begins with the last new step before the failure,
and ends when that step is reached again. So it includes the time until the failure was noticed, the time until steps
were taken again, and the repeated steps. If another restart follows before that, both are counted together.

How long each rank waited for slower ones follows from messages that ranks send anyway. The last sum of a step finishes
on all ranks at the same moment, give or take the network's latency: no rank has it before every rank has contributed.
Ranks report the time from their own last bucket to that moment as exposed all-reduce. The shortest of these in a step
belongs to the slowest rank, which waited for no other: that much is the network. Any longer wait of another rank is
idle time. Only durations are compared, never the clocks of two machines.

While ranks are not taking steps, progress messages say what they do. A training that ended normally and still fell
short gets one sentence about it: lost nodes, intruders, failed findings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from railbed.model import events
from railbed.model.events.general import progress
from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.model.text import plural


@dataclass(slots=True)
class _Restart:
    """A restart from which training has not caught up yet."""

    noticed: float
    restarts: int = 1
    began: float | None = None
    """When the first step after it began."""
    first: int = 0
    """That step."""


class Downtime:
    """Watches the records of a run in real time, and reports the cost of each restart once training has caught up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._step = 0
        self._reached = 0.0
        """When the furthest step was reached; before the first one, when the first ranks were started."""
        self._started = 0.0
        self._open: _Restart | None = None

    def add_record(self, record: Record) -> list[Record]:
        """Add a record; return the records that follow from it."""
        now = self._clock()
        match record:
            case events.GenerationStarted():
                self._started = now
                self._reached = self._reached or now
            case events.GenerationFailed():
                restarts = self._open.restarts + 1 if self._open else 1
                self._open = _Restart(noticed=self._open.noticed if self._open else now, restarts=restarts)
            case Measurement(name="step_seconds", value=seconds, labels={"rank": 0, "step": int(step)}):
                return self._note_step(step, now, seconds)
            case _:
                pass
        return []

    def _note_step(self, step: int, now: float, seconds: float) -> list[Record]:
        """Note a step of rank 0."""
        records: list[Record] = []
        if self._open:
            if self._open.began is None:
                self._open.began, self._open.first = max(now - seconds, self._open.noticed), step
            if step >= self._step:
                records.append(self._account(self._open, now if step == self._step else now - seconds))
                self._open = None
        if step > self._step:
            self._step, self._reached = step, now
        return records

    def _account(self, account: _Restart, caught_up: float) -> events.CaughtUp:
        began = account.began or caught_up
        if self._step:
            unnoticed, again = account.noticed - self._reached, max(0.0, caught_up - began)
            stopped = began - account.noticed
        else:  # no step had been reached: only the time of another start is lost
            unnoticed, again, stopped = account.noticed - self._reached, 0.0, self._started - account.noticed
        steps = max(0, self._step - account.first + 1)
        lost = unnoticed + stopped + again
        repeated = f", {again:.1f} s for {plural(steps, 'step')} again" if steps else ""
        several = f"{account.restarts} restarts" if account.restarts > 1 else "the restart"
        return events.CaughtUp(
            message=f"{several} cost {lost:.1f} s: {unnoticed:.1f} s until it was noticed, {stopped:.1f} s until "
            f"steps were taken again{repeated}",
            lost_seconds=lost,
            unnoticed_seconds=unnoticed,
            stopped_seconds=stopped,
            again_seconds=again,
            steps_again=steps,
            restarts=account.restarts,
            step=self._step,
        )


IDLE = "idle_seconds"
MOST_STEPS = 1000
"""Steps that some ranks have not reported yet: ranks are in step, so more are those of a rank that makes them up."""


@dataclass(slots=True)
class IdleTimes:
    """The ranks of one generation. A step that a rank never reported has no idle times: they are unknown."""

    world: int
    _waits: dict[int, dict[int, tuple[str, float]]] = field(default_factory=dict)
    """By step and rank: the node, and the seconds from the rank's last bucket to the end of the sum."""

    def receive(self, node: str, rank: int, message: Mapping[str, Any]) -> list[Measurement]:
        """Add a message of a rank; return the idle times of a step once all ranks have reported it."""
        match message:
            case {"kind": "progress", "step": int(step), "allreduce_exposed_seconds": int() | float() as seconds}:
                if step not in self._waits and len(self._waits) >= MOST_STEPS:
                    del self._waits[next(iter(self._waits))]
                waits = self._waits.setdefault(step, {})
                waits[rank] = node, float(seconds)
                if len(waits) == self.world:
                    return _idle(step, self._waits.pop(step), float(message.get("time", 0)))
        return []


def _idle(step: int, waits: Mapping[int, tuple[str, float]], time: float) -> list[Measurement]:
    least = min(seconds for _, seconds in waits.values())
    return [
        Measurement(
            name=IDLE,
            value=seconds - least,
            unit="s",
            labels={"step": step, "rank": rank, "node": node},
            time=time,
        )
        for rank, (node, seconds) in sorted(waits.items())
    ]


STARTING = ("starting", "joining", "loading")
"""Phases at the start, in order; the slowest rank counts."""
WORDS = {
    "starting": "ranks are loading torch",
    "joining": "ranks are joining each other",
    "loading": "ranks are loading the model and the text",
    "evaluating": "evaluating",
    "finishing": "finishing",
    "saving": "writing the last checkpoint",
    "sampling": "writing a sample",
    "exporting": "exporting the weights",
}


class Phases:
    """The ranks of one generation."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._phases: dict[int, str] = {}
        self._reported = ""

    def receive(self, rank: int, message: Mapping[str, Any]) -> list[Event]:
        """Add a message of a rank; return a progress event if the phase of the slowest rank changed."""
        match message:
            case {"kind": "alive", "phase": str(phase)}:
                self._phases[rank] = phase
        now = self._slowest()
        if now == self._reported:
            return []
        self._reported = now
        return [progress(WORDS[now])] if now in WORDS else []

    def _slowest(self) -> str:
        """Return the phase of the rank that the others wait for; after the start, the phase of rank 0."""
        there = set(self._phases.values())
        missing = len(self._phases) < self._world
        first = next((phase for phase in STARTING if phase in there), "")
        return "starting" if missing and first else first or self._phases.get(0, self._reported)


class TrainingEnd:
    """Watches the records of a run."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = list(nodes)
        self._last: list[str] = []
        """Nodes of the last generation."""
        self._step = 0
        self._lost: dict[str, tuple[int, str]] = {}
        """Step and reason of the last loss of each node."""
        self._failed: list[Finding] = []
        self._intruders: list[str] = []

    def add_record(self, record: Record) -> None:
        """Take a record."""
        match record:
            case Measurement(name="step_seconds", labels={"step": int(step)}):
                self._step = max(self._step, step)
            case events.GenerationStarted(nodes=nodes):
                self._last = list(nodes)
            case events.NodeLost() | events.NodeCut() | events.NodeOut():
                self._lost[record.subject] = self._step, record.message
            case events.Intrusion(address=str(address)):
                self._intruders.append(address)
            case Finding(verdict=Verdict.FAIL, generation=None):
                self._failed.append(record)
            case _:
                pass

    def event(self) -> events.FellShort | None:
        """Return why the run fell short; None if it did not."""
        missing = {node: self._lost.get(node, (0, "")) for node in self._nodes if node not in self._last}
        reasons = [_loss(node, *how) for node, how in missing.items()]
        others = [
            finding for finding in self._failed if not (finding.check == "reachable" and finding.subject in missing)
        ]
        reasons += [f"{finding.check} failed for {finding.subject}: {finding.observed}" for finding in others[:3]]
        if self._intruders:
            where = ", ".join(dict.fromkeys(self._intruders))
            reasons.append(f"a stranger at {where} tried to connect to its ranks")
        if not reasons:
            return None
        return events.FellShort(
            message=f"trained to the end, but {'; '.join(reasons)}",
            lost={node: events.LostNode(step=step, why=why) for node, (step, why) in missing.items()},
            failed=[finding.check for finding in others],
            intruders=list(dict.fromkeys(self._intruders)),
        )


def _loss(node: str, step: int, why: str) -> str:
    when = f"was lost at step {step}" if step else "did not take part"
    return f"{node} {when} ({why})" if why else f"{node} {when}"
