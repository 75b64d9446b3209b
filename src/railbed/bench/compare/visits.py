"""Two visits: the first is saved for the second, and the cluster must not change in between."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from railbed.bench.compare.arms import ARM_VALUE, Contest
from railbed.bench.compare.experiment import Experiment
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.events import FirstVisitDone
from railbed.model.record import Measurement
from railbed.store import RunSummary, read_records, read_run_in
from railbed.store.find import cluster_to_read

"""The last event of a first visit: the experiment, and the measured paths."""
RUNS = "`railbed bench --experiment NAME` makes a first visit"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstVisit:
    """The first visit, read from its run."""

    run: str
    name: str
    experiment: Experiment
    cluster: Cluster
    ended: float
    paths: Sequence[Sequence[str]]
    """The measured paths of each comparison."""
    values: Sequence[Measurement] = field(default=())

    def values_of(self, number: int) -> dict[int, Measurement]:
        """Return the values of arm A in a comparison, by repeat."""
        return {int(value.labels["repeat"]): value for value in self.values if value.labels.get("comparison") == number}

    def mismatch(self, contest: Contest) -> str:
        """Return why a comparison cannot be completed now; empty if it can."""
        then, now = self.paths[contest.number - 1], contest.b.paths
        if not contest.a.values:
            return f"{self.run} has no numbers for {contest.a.arm.name}"
        if list(then) == now:
            return ""
        return f"the first visit measured {_listing(then)}; now it would be {_listing(now)}"


def first_visit_event(name: str, experiment: Experiment, contests: Sequence[Contest]) -> FirstVisitDone:
    """Return the event that the second visit needs."""
    message = f"measured {experiment.a.name}; now {experiment.between}, then measure {experiment.b.name}"
    return FirstVisitDone(
        subject=name,
        message=message,
        experiment=experiment.model_dump(mode="json", exclude_none=True),
        paths=[contest.a.paths for contest in contests],
    )


def is_first_visit(run: RunSummary, folder: Path) -> bool:
    """Whether a run is the first visit of an experiment, and complete."""
    return run.verb == "bench" and run.status == "done" and _records(folder)[0] is not None


def read_first_visit(folder: Path, cluster: Cluster) -> FirstVisit:
    """Return the first visit stored in a run; raise UsageError if there is none, or if its cluster differs."""
    summary = read_run_in(folder)
    event, values = _records(folder)
    if summary is None or event is None:
        raise UsageError(f"{folder.name} is not the first visit of an experiment", hint=RUNS)
    if summary.status != "done" or summary.ended is None:
        raise UsageError(f"the first visit {folder.name} did not complete: it {summary.status}", hint=RUNS)
    try:
        experiment = Experiment.model_validate(event.experiment)
    except ValidationError as error:
        raise UsageError(
            f"{folder.name} was made by another version of railbed and cannot be continued", hint=RUNS
        ) from error
    then = cluster_to_read(folder)
    if reason := cluster_mismatch(then, cluster):
        raise UsageError(
            f"{folder.name} measured another cluster: {reason}",
            hint="pass the cluster file of the same nodes: --cluster",
        )
    return FirstVisit(
        run=folder.name,
        name=event.subject,
        experiment=experiment,
        cluster=then,
        ended=summary.ended,
        paths=event.paths,
        values=values,
    )


def _records(folder: Path) -> tuple[FirstVisitDone | None, list[Measurement]]:
    """Return the last event of a first visit, and the values of its arm."""
    visit: FirstVisitDone | None = None
    values: list[Measurement] = []
    for record in read_records(folder, FirstVisitDone, Measurement, names=[ARM_VALUE]):
        if isinstance(record, FirstVisitDone):
            visit = record
        elif isinstance(record, Measurement):
            values.append(record)
    return visit, values


def cluster_mismatch(then: Cluster, now: Cluster) -> str:
    """Return how nodes or ports differ, or an empty string; whether rails are point to point may have changed."""
    if list(then.nodes) != list(now.nodes):
        return f"its nodes were {_listing(list(then.nodes))}, and here they are {_listing(list(now.nodes))}"
    for name, node in now.nodes.items():
        earlier = then.nodes[name]
        if earlier.host != node.host:
            return f"{name} was {earlier.host}, and is {node.host} here"
        ports = [[f"{port.netdev} on {port.rail}" for port in version.ports] for version in (earlier, node)]
        if ports[0] != ports[1]:
            return f"{name} had {_listing(ports[0])}, and has {_listing(ports[1])} here"
    return ""


def time_since(ended: float) -> str:
    """Return how long ago a visit ended, such as `3 hours`."""
    seconds = max(0.0, time.time() - ended)
    for threshold, unit, word in ((172_800, 86_400, "days"), (7200, 3600, "hours"), (120, 60, "minutes")):
        if seconds >= threshold:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds:.0f} seconds"


def _listing(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
