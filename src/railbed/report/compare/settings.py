"""Differences between two runs other than numbers: settings, versions, and what only one of them has."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from railbed.model.events import RankChoices
from railbed.model.private import scrub
from railbed.report.reading.history import generations, recipe
from railbed.report.reading.run import RunData

Where = Literal["before", "after"]
Kind = Literal["measure", "node", "rank", "event"]
PER_RANK = ("peak_flops", "sequences", "micro_batches", "rank", "time", "kind", "step")
"""Choices of ranks that are measured, or follow from the speed of a rank."""
MOST_VALUES = 4
T = TypeVar("T")
LONGEST = 200
GROUPS = {"recipe": "settings of a recipe", "chosen": "choices of ranks", "version of": "versions of tools"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting with its values in both runs; None if a run does not have it."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lone:
    """Something that only one run has."""

    kind: Kind
    name: str
    where: Where
    of: Sequence[str] = ()
    """For a measure of both runs: the labels that only one has."""
    count: int = 1


def settings(before: RunData, after: RunData) -> list[SettingChange]:
    """Return the settings, arguments and versions that differ; if a run has none of a kind, only that."""
    differences: list[SettingChange] = []
    first, second = _settings(before), _settings(after)
    for group in dict.fromkeys([*first, *second]):
        ours, theirs = first.get(group, {}), second.get(group, {})
        if group and not (ours and theirs):
            words = [f"{len(values)} of them" if values else None for values in (ours, theirs)]
            differences.append(SettingChange(key=GROUPS[group], before=words[0], after=words[1]))
            continue
        differences += [
            SettingChange(key=f"{group} {key}".strip(), before=ours.get(key), after=theirs.get(key))
            for key in dict.fromkeys([*ours, *theirs])
            if ours.get(key) != theirs.get(key)
        ]
    return differences


def find_lone(before: RunData, after: RunData) -> Iterator[Lone]:
    """Yield the nodes, ranks and kinds of events that only one run has."""
    kinds: dict[Kind, Callable[[RunData], dict[str, int]]] = {"node": _nodes, "rank": _ranks, "event": _events}
    for kind, counted in kinds.items():
        first, second = counted(before), counted(after)
        for where, ours, others in sides(first, second):
            for name, count in ours.items():
                if name not in others:
                    yield Lone(kind=kind, name=name, where=where, count=count)


def sides(first: T, second: T) -> tuple[tuple[Where, T, T], tuple[Where, T, T]]:
    """Return both runs, each with the other."""
    return ("before", first, second), ("after", second, first)


def _settings(run: RunData) -> dict[str, dict[str, str]]:
    """Return the settings of a run by group; those without a group belong to the run itself."""
    own = {"command": command(run), "railbed version": run.summary.version, "cluster": run.summary.cluster}
    chosen: dict[str, dict[str, None]] = {}
    for choices in run.of(RankChoices):
        for key, value in _flat("", choices.data):
            if key.split(".")[0] not in PER_RANK:
                chosen.setdefault(key, {})[value] = None
    tools: dict[str, dict[str, None]] = {}
    for measurement in run.measurements:
        if "version" in measurement.labels:
            tools.setdefault(str(measurement.labels.get("tool", measurement.name)), {})[
                str(measurement.labels["version"])
            ] = None
    groups = {
        "": own,
        "recipe": dict(_flat("", recipe(run))),
        "chosen": {key: _several(values) for key, values in chosen.items()},
        "version of": {tool: _several(versions) for tool, versions in tools.items()},
    }
    return {group: values for group, values in groups.items() if values}


def command(run: RunData) -> str:
    """Return the command line of a run, without secrets."""
    return scrub(shlex.join(["railbed", *run.summary.arguments]).encode("utf-8", "replace")).decode()


def _several(values: Mapping[str, None]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - MOST_VALUES} more" if len(ordered) > MOST_VALUES else ""
    return ", ".join(ordered[:MOST_VALUES]) + more


def _flat(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
        elif value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield name, text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _nodes(run: RunData) -> dict[str, int]:
    """Return the participating nodes."""
    named = [node for generation in generations(run) for node in generation.nodes]
    ends = [
        measurement.labels[name]
        for measurement in run.measurements
        for name in ("node", "from", "to")
        if name in measurement.labels
    ]
    steps = [source.node for series in run.series.values() for source in series.sources if source.node]
    return dict.fromkeys([*named, *map(str, ends), *steps], 1)


def _ranks(run: RunData) -> dict[str, int]:
    ranks = sorted({source.rank for series in run.series.values() for source in series.sources})
    return {f"rank {rank}": 1 for rank in ranks}


def _events(run: RunData) -> dict[str, int]:
    counted: dict[str, int] = {}
    for event in run.events:
        counted[event.name] = counted.get(event.name, 0) + 1
    return counted
