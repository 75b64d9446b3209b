"""Messages of ranks as records: measurements under their names, and events."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from railbed.model import events
from railbed.model.meters import RECORDED
from railbed.model.record import Event, Finding, Measurement, Record, Verdict

SENTENCES = ("checkpoint_failed", "micro_batch", "notice", "error", "intrusion")
"""Messages that are events of a rank, with a sentence for people."""
TOGETHER = "global_tokens_per_second"
"""The tokens of all ranks together, as users expect from tokens per second."""


def records_of(node: str, rank: int, fields: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the records of a rank's message; a notice for an invalid one."""
    try:
        records = list(_records_of(node, rank, fields))
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, ZeroDivisionError):
        records = [events.Notice(message=f"{node}/rank{rank} sent an invalid message")]
    yield from records


def _records_of(node: str, rank: int, fields: Mapping[str, Any]) -> Iterator[Record]:
    match fields:
        case {"kind": "progress" | "evaluation" | "memory", "step": int(step)}:
            yield from _measurements(node, rank, step, fields)
        case {"kind": "checkpoint" | "checkpoint_copied" as kind, "step": int(step)}:
            how = "saved and verified" if kind == "checkpoint" else "copied to the run's folder"
            message = f"state of step {step} {how} in {fields.get('seconds', 0):.1f} s"
            yield _event(kind, fields, subject=node, message=message)
        case {"kind": "perplexity"}:
            yield from _perplexity(rank, fields)
        case {"kind": "export_failed", "sentence": str(sentence)}:
            yield _weights_missing(node, sentence)
        case {"kind": kind, "sentence": str(sentence)} if kind in SENTENCES:
            yield _event(kind, fields, subject=f"{node}/rank{rank}", message=sentence)
        case {"kind": "transport", "engine": str(engine), "reason": str(reason)}:
            yield _event("transport", fields, subject=engine, message=reason)
            yield from _trials(node, rank, fields)
        case {"kind": "resumed", "step": int(step)} if rank == 0:
            yield _event("resumed", fields, subject=node, message=f"continues after step {step}")
        case {"kind": "shares", "sentence": str(sentence)}:
            yield from _shares(sentence, fields)
        case {"kind": "chosen" | "sample" | "exported" | "rank_done" as kind}:
            yield _event(kind, fields, subject=f"{node}/rank{rank}")


def _event(name: str, fields: Mapping[str, Any], *, subject: str = "", message: str = "") -> Event:
    """Return the event of a rank's message: its fields are the data."""
    data = {key: value for key, value in fields.items() if key not in ("kind", "time", "sentence")}
    return events.parse(name, subject=subject, message=message, data=data, time=time.time())


def _shares(sentence: str, fields: Mapping[str, Any]) -> Iterator[Event]:
    yield _event("shares", fields, message=sentence)
    if cost := fields.get("cost"):
        yield events.Notice(message=str(cost))


def _weights_missing(node: str, sentence: str) -> Finding:
    return Finding(
        check="weights_written",
        subject=node,
        verdict=Verdict.FAIL,
        expected="the weights in the layout of Hugging Face",
        observed=sentence,
        why="Without them, or a checkpoint of the last step, the trained model is lost.",
        remedy="free some disk space there; `railbed export RUN DIR` then creates them from the newest checkpoint",
    )


def _measurements(node: str, rank: int, step: int, fields: Mapping[str, Any]) -> Iterator[Measurement]:
    for name, value in {**fields, "tokens_per_second": fields.get(TOGETHER)}.items():
        meter = RECORDED.get(name)
        if meter and isinstance(value, int | float) and (rank == 0 or not meter.once):
            labels: dict[str, str | int] = {"step": step, "rank": rank, "node": node}
            yield Measurement(
                name=name,
                value=float(value),
                unit=meter.unit,
                labels=labels,
                time=float(fields.get("time", 0)),
            )
    match fields:
        case {"samples": [int(first), int(end)]}:
            # Which sequences this rank trained on: each sequence of a step belongs to exactly one rank.
            labels = {"step": step, "rank": rank, "node": node, "first": first}
            yield Measurement(
                name="sequences", value=end - first, unit="sequence", labels=labels, time=float(fields.get("time", 0))
            )


def _perplexity(rank: int, fields: Mapping[str, Any]) -> Iterator[Measurement]:
    """Yield the perplexity of held-out text before or after tuning, which is the same on all ranks."""
    match fields:
        case {"when": "before" | "after" as moment, "perplexity": float(value)} if rank == 0:
            labels: dict[str, str | int] = {"split": "held_out", "when": moment}
            when = float(fields.get("time", 0))
            yield Measurement(name="perplexity", value=value, unit="1", labels=labels, time=when)


def _trials(node: str, rank: int, fields: Mapping[str, Any]) -> Iterator[Measurement]:
    """Yield the measurements of the test of each engine: seconds, and bytes of gradient per second."""
    for engine, timings in fields.get("timings", {}).items():
        for timing in timings:
            size, seconds = int(timing["size"]), float(timing["seconds"])
            labels: dict[str, str | int] = {"engine": engine, "bytes": size, "rank": rank, "node": node}
            when = float(fields.get("time", 0))
            yield Measurement(name="allreduce_trial_seconds", value=seconds, unit="s", labels=labels, time=when)
            rate = size / seconds if seconds else 0.0
            yield Measurement(name="allreduce_trial_rate", value=rate, unit="byte/s", labels=labels, time=when)
