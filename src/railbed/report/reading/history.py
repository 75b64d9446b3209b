"""The recipe of a training run, and its generations: nodes, steps, and why each ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from railbed.model import events
from railbed.model.record import Event, Finding
from railbed.report.reading.run import RunData

ESTIMATED = ("device", "ranks", "needed_bytes", "available_bytes", "estimated_rank_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationHistory:
    """One generation: from a start of all ranks to its end."""

    number: int
    nodes: Sequence[str]
    start: float
    end: float | None
    steps: tuple[int, int] | None
    """The first and the last step that it reported."""
    why: str = ""
    """Why it ended early."""
    who: str = ""
    done: bool = False
    resumed_from: int | None = None
    resumed_at: float | None = None
    caught_up: events.CaughtUp | None = None
    """The cost of the restarts until then, once it had caught up with the generation before it."""
    cut: Sequence[tuple[str, str]] = ()
    """Nodes that the others did not reach after it had ended, and why."""
    changes: Sequence[Finding] = ()
    """What had become worse on the nodes by the time it ended early."""

    @property
    def reason(self) -> str:
        """Why it ended early, as finally determined; empty if it did not."""
        if not self.cut:
            return self.why
        return f"{'; '.join(f'{node}: {why}' for node, why in self.cut)} (first noticed as: {self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The end of one generation and the start of the next."""

    who: str
    why: str
    time: float
    before: GenerationHistory
    after: GenerationHistory | None

    counted_later: bool = False
    """Another restart followed before training had caught up; its cost includes this one's."""

    @property
    def seconds(self) -> float | None:
        """The time in which training made no progress (`train.progress.downtime`); a lower bound if not reported."""
        if self.after is None or self.counted_later:
            return None
        if self.after.caught_up:
            return self.after.caught_up.lost_seconds
        return max(0.0, (self.after.resumed_at or self.after.start) - self.time)

    @property
    def is_least(self) -> bool:
        """Whether `seconds` is a lower bound: training did not catch up, or an older railbed did not report it."""
        return self.seconds is not None and self.after is not None and self.after.caught_up is None

    @property
    def causes(self) -> Sequence[tuple[str, str]]:
        """The nodes at fault and why, if known."""
        return self.before.cut or ([(self.who, self.why.removeprefix(f"{self.who}: "))] if self.who else ())

    @property
    def steps_again(self) -> int | None:
        """How many steps were repeated."""
        if self.after is None or self.before.steps is None or self.after.steps is None:
            return None
        return max(0, self.before.steps[1] - self.after.steps[0] + 1)


def recipe(run: RunData) -> Mapping[str, Any]:
    """Return the recipe that was trained, with every setting; empty if the run did not get that far."""
    return next((event.recipe for event in run.of(events.TrainingStarted)), {})


def memory(run: RunData) -> list[dict[str, Any]]:
    """Return, by node, the memory estimated before the launch and the peak of its largest rank."""
    estimates: dict[str, events.NodeMemory] = {}
    for event in run.of(events.MemoryEstimated):
        estimates.update(event.nodes)
    peaks: dict[str, float] = {}
    for source, values in (
        run.series["peak_memory_bytes"].by_source().items() if "peak_memory_bytes" in run.series else ()
    ):
        peaks[source.node] = max(peaks.get(source.node, 0.0), *values)
    return [
        {
            "node": node,
            **{name: getattr(estimates.get(node), name, None) for name in ESTIMATED},
            "peak_memory_bytes": peaks.get(node),
        }
        for node in dict.fromkeys([*estimates, *peaks])
    ]


def generations(run: RunData) -> list[GenerationHistory]:
    """Return the generations in their order."""
    spans: list[tuple[events.GenerationStarted, list[Event]]] = []
    for event in run.events:
        if isinstance(event, events.GenerationStarted):
            spans.append((event, []))
        elif spans:
            spans[-1][1].append(event)
    series = run.series.get("step_seconds") or run.series.get("loss")
    steps = series.last_steps() if series else {}
    return [
        _generation(run, number, started, span, steps.get(number))
        for number, (started, span) in enumerate(spans, start=1)
    ]


def restarts(run: RunData) -> list[Restart]:
    """Return the restarts between the generations."""
    all_generations = generations(run)
    return [
        Restart(
            who=generation.who,
            why=generation.why,
            time=generation.end,
            before=generation,
            after=following,
            counted_later=_is_counted_later(all_generations[number:]),
        )
        for number, (generation, following) in enumerate(zip_longest(all_generations, all_generations[1:]), start=1)
        if generation.why and generation.end is not None
    ]


def _is_counted_later(following: Sequence[GenerationHistory]) -> bool:
    """Whether the cost of a restart is reported together with that of a later one."""
    for distance, generation in enumerate(following, start=1):
        if generation.caught_up:
            return distance > 1 and generation.caught_up.restarts >= distance
    return False


def lost_seconds(restarts: Sequence[Restart]) -> tuple[float, bool]:
    """Return the total cost of restarts, and whether it is a lower bound."""
    return sum(restart.seconds or 0.0 for restart in restarts), any(restart.is_least for restart in restarts)


def _generation(
    run: RunData, number: int, started: events.GenerationStarted, span: Sequence[Event], steps: tuple[int, int] | None
) -> GenerationHistory:
    ending = next((event for event in span if isinstance(event, events.GenerationFailed | events.GenerationDone)), None)
    failure = ending if isinstance(ending, events.GenerationFailed) else None
    resumed = next((event for event in span if isinstance(event, events.Resumed)), None)
    cut = [event for event in span if isinstance(event, events.NodeCut) and ending and event.time >= ending.time]
    return GenerationHistory(
        number=number,
        nodes=started.nodes,
        start=started.time,
        end=ending.time if ending else run.end,
        steps=steps,
        why=(failure.message or "no reason was given") if failure else "",
        who=failure.subject if failure else "",
        done=isinstance(ending, events.GenerationDone),
        resumed_from=resumed.step if resumed else None,
        resumed_at=resumed.time if resumed else None,
        caught_up=next((event for event in span if isinstance(event, events.CaughtUp)), None),
        cut=[(event.subject, event.message) for event in cut],
        changes=[
            finding
            for finding in run.at_restarts
            if failure and finding.is_of_restart(failure.generation, failure.time)
        ],
    )
