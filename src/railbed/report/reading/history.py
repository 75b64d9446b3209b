"""What a training run was asked, and its generations: who took part, from which step to which, why each ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from railbed.model.record import Event
from railbed.report.reading.run import RunData

ESTIMATED = ("device", "ranks", "needed_bytes", "available_bytes", "estimated_rank_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """From one start of all ranks to its end."""

    number: int
    nodes: Sequence[str]
    start: float
    end: float | None
    steps: tuple[int, int] | None
    """The first and the last step that it told of."""
    why: str = ""
    """Why it ended early."""
    who: str = ""
    done: bool = False
    resumed_from: int | None = None
    resumed_at: float | None = None
    caught_up: Mapping[str, Any] = field(default_factory=dict)
    """What was told when it had come as far as the one before it: what the restarts until then cost."""
    cut: Sequence[tuple[str, str]] = ()
    """Nodes that the others were found not to reach when it had ended, and why."""

    @property
    def reason(self) -> str:
        """Why it ended early, as was found out in the end; empty where it did not."""
        if not self.cut:
            return self.why
        return f"{'; '.join(f'{node}: {why}' for node, why in self.cut)} (first noticed as: {self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The end of one generation and the start of the next."""

    who: str
    why: str
    time: float
    before: Generation
    after: Generation | None

    counted_later: bool = False
    """Another restart followed before this one was made good, and its cost has this one's in it."""

    @property
    def seconds(self) -> float | None:
        """The time in which training did not get any further (`train.downtime`); the least it can be, if not told."""
        if self.after is None or self.counted_later:
            return None
        match self.after.caught_up.get("lost_seconds"):
            case float() | int() as lost:
                return float(lost)
        return max(0.0, (self.after.resumed_at or self.after.start) - self.time)

    @property
    def is_least(self) -> bool:
        """Whether it cost more than `seconds`: it was not made good, or an older railbed did not tell."""
        return self.seconds is not None and self.after is not None and "lost_seconds" not in self.after.caught_up

    @property
    def causes(self) -> Sequence[tuple[str, str]]:
        """The nodes at fault and why, as far as that was found out."""
        return self.before.cut or ([(self.who, self.why.removeprefix(f"{self.who}: "))] if self.who else ())

    @property
    def steps_again(self) -> int | None:
        """How many steps were done again."""
        if self.after is None or self.before.steps is None or self.after.steps is None:
            return None
        return max(0, self.before.steps[1] - self.after.steps[0] + 1)


def recipe(run: RunData) -> Mapping[str, Any]:
    """Return the recipe that was trained, with every setting; empty where none was told."""
    for event in run.told("training"):
        found = event.data.get("recipe")
        if isinstance(found, Mapping):
            return found
    return {}


def memory(run: RunData) -> list[dict[str, Any]]:
    """Return, by node, what was estimated before the launch, and the most that one rank took in the end."""
    estimates: dict[str, Mapping[str, Any]] = {}
    for event in run.told("estimate"):
        match event.data.get("nodes"):
            case Mapping() as nodes:
                estimates.update({str(node): told for node, told in nodes.items() if isinstance(told, Mapping)})
    peaks: dict[str, float] = {}
    for source, told in (
        run.series["peak_memory_bytes"].by_source().items() if "peak_memory_bytes" in run.series else ()
    ):
        peaks[source.node] = max(peaks.get(source.node, 0.0), *told)
    return [
        {
            "node": node,
            **{name: estimates.get(node, {}).get(name) for name in ESTIMATED},
            "peak_memory_bytes": peaks.get(node),
        }
        for node in dict.fromkeys([*estimates, *peaks])
    ]


def generations(run: RunData) -> list[Generation]:
    """Return the generations in their order."""
    spans: list[list[Event]] = []
    for event in run.told("generation", "restart", "done", "resumed", "caught_up", "node_cut"):
        if event.name == "generation":
            spans.append([event])
        elif spans:
            spans[-1].append(event)
    series = run.series.get("step_seconds") or run.series.get("loss")
    steps = series.last_steps() if series else {}
    return [_generation(run, number, span, steps.get(number)) for number, span in enumerate(spans, start=1)]


def restarts(run: RunData) -> list[Restart]:
    """Return what happened between the generations."""
    found = generations(run)
    return [
        Restart(
            who=one.who,
            why=one.why,
            time=one.end,
            before=one,
            after=following,
            counted_later=_is_counted_later(found[number:]),
        )
        for number, (one, following) in enumerate(zip_longest(found, found[1:]), start=1)
        if one.why and one.end is not None
    ]


def _is_counted_later(following: Sequence[Generation]) -> bool:
    """Say whether the cost of a restart is told together with that of a later one."""
    for distance, one in enumerate(following, start=1):
        if one.caught_up:
            return distance > 1 and one.caught_up.get("restarts", 1) >= distance
    return False


def lost_seconds(found: Sequence[Restart]) -> tuple[float, bool]:
    """Return what restarts cost together, and whether that is only the least it can be."""
    return sum(one.seconds or 0.0 for one in found), any(one.is_least for one in found)


def _generation(run: RunData, number: int, span: Sequence[Event], steps: tuple[int, int] | None) -> Generation:
    nodes = span[0].data.get("nodes")
    ending = next((event for event in span if event.name in ("restart", "done")), None)
    resumed = next((event for event in span if event.name == "resumed"), None)
    step = resumed.data.get("step") if resumed else None
    caught_up = next((event.data for event in span if event.name == "caught_up"), {})
    cut = [event for event in span if event.name == "node_cut" and ending and event.time >= ending.time]
    restart = ending is not None and ending.name == "restart"
    return Generation(
        number=number,
        nodes=[str(node) for node in nodes] if isinstance(nodes, Sequence) and not isinstance(nodes, str) else [],
        start=span[0].time,
        end=ending.time if ending else run.summary.ended or run.last_time,
        steps=steps,
        why=(ending.message or "no reason was told") if ending and restart else "",
        who=ending.subject if ending and restart else "",
        done=ending is not None and not restart,
        resumed_from=step if isinstance(step, int) else None,
        resumed_at=resumed.time if resumed else None,
        caught_up=caught_up,
        cut=[(event.subject, event.message) for event in cut],
    )
