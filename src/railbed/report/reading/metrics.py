"""The metrics of a training run for other programs: the content of `training_metrics.json`.

It is derived from the run's records, and only from steps that stayed in the history: steps that a restart discarded
count in `total_seconds` but not in `useful_seconds`. Values that were not measured are null, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from pydantic_core import to_json

from railbed.model import events
from railbed.report.reading.history import generations, lost_seconds, memory, recipe, restarts
from railbed.report.reading.run import RunData
from railbed.report.reading.series import MeasuringRank, Typical, ends
from railbed.report.sections.time import PARTS

FILE = "training_metrics.json"
OF_STEP = (
    "loss",
    "validation_loss",
    "learning_rate",
    "gradient_norm",
    "tokens_per_second",
    "mfu",
    "step_seconds",
    *PARTS,
)
"""One number for each step; the mean if several ranks report it."""
COUNTS = ("tokens", "trained_tokens")
"""One number for each step of a run whose sequences are not all full."""
OF_RANK = ("bytes_sent", "idle_seconds")
"""One number for each step and rank."""

History = Mapping[str, Mapping[int, Mapping[MeasuringRank, float]]]


def metrics(run: RunData) -> dict[str, Any]:
    """Return the figures of a training run."""
    history: History = {
        name: run.series[name].history() for name in (*OF_STEP, *COUNTS, *OF_RANK) if name in run.series
    }
    steps = sorted({step for measure in history.values() for step in measure})
    return {"kind": "training_metrics", **_of_run(run, history, steps), "steps": list(_of_steps(history, steps))}


def as_json(figures: Mapping[str, Any]) -> bytes:
    """Return the figures as the text of their file: one step per line, for people and `grep`."""
    head = to_json({**figures, "steps": []}, indent=1, inf_nan_mode="null").decode()
    rows = ",\n".join(f"  {to_json(row, inf_nan_mode='null').decode()}" for row in figures["steps"])
    return (head.removesuffix("[]\n}") + (f"[\n{rows}\n ]" if rows else "[]") + "\n}\n").encode()


def _of_run(run: RunData, history: History, steps: Sequence[int]) -> dict[str, Any]:
    summary, settings, parts = run.summary, recipe(run), generations(run)
    done = sum(part.steps[1] - part.steps[0] + 1 for part in parts if part.steps)
    losses = _means(history, "loss")
    begin, end = ends(losses) if losses else (None, None)
    return {
        "run": summary.id,
        "job": next((event.run for event in run.of(events.TrainingStarted)), None),
        "status": summary.status,
        "exit": summary.exit,
        "railbed": summary.version,
        "cluster": summary.cluster,
        "started": summary.started,
        "ended": summary.ended,
        "recipe": settings,
        "parameters": next((event.parameters for event in run.of(events.RankChoices)), None),
        "nodes": list(dict.fromkeys(node for part in parts for node in part.nodes)),
        "generations": len(parts),
        "restarts": [
            {
                "time": restart.time,
                "node": restart.who,
                "why": restart.why,
                "causes": [{"node": node, "why": why} for node, why in restart.causes],
                "seconds": restart.seconds,
                "steps_again": restart.steps_again,
            }
            for restart in restarts(run)
        ],
        "lost_seconds": lost_seconds(restarts(run))[0],
        "steps_asked": settings.get("steps"),
        "steps_in_history": len(steps),
        "steps_thrown_away": max(0, done - len(steps)),
        "total_tokens": _tokens(history, settings, len(steps)),
        "trained_tokens": _trained_tokens(history, settings, len(steps)),
        "total_seconds": run.seconds,
        "useful_seconds": sum(_means(history, "step_seconds")),
        "loss": {"begin": begin, "end": end},
        "validation_loss": next(reversed(_means(history, "validation_loss")), None),
        "tokens_per_second": _middle(run, "tokens_per_second"),
        "mfu": _middle(run, "mfu"),
        "time": {name: sum(_means(history, name)) if name in history else None for name in PARTS},
        "ranks": list(_of_ranks(run)),
        "memory": memory(run),
    }


def _of_ranks(run: RunData) -> Iterator[dict[str, Any]]:
    """Yield the figures of each rank; the same rank on another node, after a restart, is another row."""
    names = {name: run.series[name].history_by_source() for name in ("step_seconds", *OF_RANK) if name in run.series}
    peaks = run.series["peak_memory_bytes"].by_source() if "peak_memory_bytes" in run.series else {}
    for source in sorted({source for by in (*names.values(), peaks) for source, values in by.items() if values}):
        times, sent, idle = (names.get(name, {}).get(source) for name in ("step_seconds", *OF_RANK))
        yield {
            "rank": source.rank,
            "node": source.node,
            "steps": len(times or sent or idle or ()),
            "step_seconds": Typical.of(times).middle if times else None,
            "bytes_sent": sum(sent) if sent else None,
            "idle_seconds": sum(idle) if idle else None,
            "peak_memory_bytes": max(peaks[source]) if source in peaks else None,
        }


def _of_steps(history: History, steps: Iterable[int]) -> Iterator[dict[str, Any]]:
    for step in steps:
        row: dict[str, Any] = {"step": step}
        for name in OF_STEP:
            values = history.get(name, {}).get(step)
            row[name] = fmean(values.values()) if values else None
        for name in OF_RANK:
            values = history.get(name, {}).get(step)
            row[name] = {str(source.rank): value for source, value in sorted(values.items())} if values else None
        yield row


def _means(history: History, name: str) -> list[float]:
    return [fmean(values.values()) for values in history.get(name, {}).values()]


def _middle(run: RunData, name: str) -> float | None:
    of = run.series[name].typical() if name in run.series else None
    return of.middle if of and of.count else None


def _tokens(history: History, settings: Mapping[str, Any], steps: int) -> int | None:
    """Return the number of tokens that the model was trained on, without padding; a network load has none."""
    if "tokens" in history:
        return round(sum(_means(history, "tokens")))
    match settings:
        case {"model": {"family": "pretrained"}}:
            return None  # its sequences are not all full
        case {"traffic": None, "batch": {"sequences": int(sequences)}, "model": {"context": int(context)}}:
            return steps * sequences * context
    return None


def _trained_tokens(history: History, settings: Mapping[str, Any], steps: int) -> int | None:
    """Return how many of them the model learned to write: all, unless answers are learned only."""
    if "trained_tokens" in history:
        return round(sum(_means(history, "trained_tokens")))
    return _tokens(history, settings, steps)
