"""Two visits: what the first one keeps for the second, and what must be as it was then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from railbed import clusterfile
from railbed.bench.compare.arms import ARM_VALUE, Contest
from railbed.bench.compare.experiment import Experiment
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.record import Event, Measurement
from railbed.store import read_record, read_run_in, record_lines
from railbed.store.run import CLUSTER

FIRST_VISIT = "first_visit"
"""The event that the first visit ends with: the experiment, and who was measured with whom."""
RUNS = "`railbed bench --experiment NAME` makes a first visit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVisit:
    """The first visit, as its run tells it."""

    run: str
    name: str
    experiment: Experiment
    cluster: Cluster
    ended: float
    ways: Sequence[Sequence[str]]
    """For each comparison who was measured with whom."""
    values: Sequence[Measurement] = field(default=())

    def values_of(self, number: int) -> dict[int, Measurement]:
        """Return arm A's numbers of a comparison, by repeat."""
        return {int(one.labels["repeat"]): one for one in self.values if one.labels.get("comparison") == number}

    def misfit(self, contest: Contest) -> str:
        """Say why a comparison cannot go on as it began; nothing where it can."""
        then, now = self.ways[contest.number - 1], contest.b.ways
        if not contest.a.values:
            return f"{self.run} has no numbers of {contest.a.arm.name}"
        return "" if list(then) == now else f"the first visit measured {_told(then)}; now it would be {_told(now)}"


def first_visit_event(name: str, experiment: Experiment, contests: Sequence[Contest]) -> Event:
    """Return what the second visit needs to know."""
    message = f"{experiment.a.name} is measured; now {experiment.between}, then measure {experiment.b.name}"
    data = {
        "experiment": experiment.model_dump(mode="json", exclude_none=True),
        "ways": [contest.a.ways for contest in contests],
    }
    return Event(name=FIRST_VISIT, subject=name, message=message, data=data)


def read_first_visit(folder: Path, cluster: Cluster) -> FirstVisit:
    """Return the first visit that a run was; raise UsageError where it was none, or this is another cluster."""
    summary = read_run_in(folder)
    event, values = _records(folder)
    if summary is None or event is None:
        raise UsageError(f"{folder.name} is not the first visit of an experiment", hint=RUNS)
    if summary.status != "done" or summary.ended is None:
        raise UsageError(f"the first visit {folder.name} did not end in order: it {summary.status}", hint=RUNS)
    data: dict[str, Any] = dict(event.data)
    try:
        experiment = Experiment.model_validate(data["experiment"])
    except (KeyError, ValidationError) as error:
        raise UsageError(f"{folder.name} was made by another railbed, and cannot be gone on with", hint=RUNS) from error
    then = clusterfile.load(folder / CLUSTER)
    if why := other_cluster(then, cluster):
        raise UsageError(
            f"this cluster is not that of {folder.name}: {why}", hint="--cluster gives the file of the same nodes"
        )
    return FirstVisit(
        run=folder.name,
        name=event.subject,
        experiment=experiment,
        cluster=then,
        ended=summary.ended,
        ways=data.get("ways", []),
        values=values,
    )


def _records(folder: Path) -> tuple[Event | None, list[Measurement]]:
    """Return the event that a first visit ends with, and the arm's numbers."""
    found: Event | None = None
    values: list[Measurement] = []
    for line in record_lines(folder):
        try:
            record = read_record(line)
        except ValueError:
            continue
        if isinstance(record, Event) and record.name == FIRST_VISIT:
            found = record
        elif isinstance(record, Measurement) and record.name == ARM_VALUE:
            values.append(record)
    return found, values


def other_cluster(then: Cluster, now: Cluster) -> str:
    """Say why a cluster is another one: other nodes, or other ports. Rails may have become point to point, or not."""
    if list(then.nodes) != list(now.nodes):
        return f"it had the nodes {_told(list(then.nodes))}, and here are {_told(list(now.nodes))}"
    for name, node in now.nodes.items():
        was = then.nodes[name]
        if was.host != node.host:
            return f"{name} was {was.host}, and is {node.host} here"
        ports = [[f"{port.netdev} on {port.rail}" for port in one.ports] for one in (was, node)]
        if ports[0] != ports[1]:
            return f"{name} had {_told(ports[0])}, and has {_told(ports[1])} here"
    return ""


def apart_since(ended: float) -> str:
    """Return how long ago a visit ended, in words."""
    seconds = max(0.0, time.time() - ended)
    for least, unit, word in ((172_800, 86_400, "days"), (7200, 3600, "hours"), (120, 60, "minutes")):
        if seconds >= least:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds:.0f} seconds"


def _told(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
