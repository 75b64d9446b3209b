"""The newest measures of the ranks of a running training, from the records of its run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

from railbed.model.events import GenerationStarted
from railbed.model.meters import METERS
from railbed.model.record import Measurement, Record
from railbed.store import RunSummary, follow, read_run_in, runs_folder
from railbed.web.metrics.labels import as_unicode

LOOK_SECONDS = 2.0
"""How often to look for a training that has started."""
NEWEST = 20
STEPS = 1 << 53
"""From here on a number as Prometheus has it cannot count steps; a damaged record may have such a number."""
MEASURED = frozenset(name for name, meter in METERS.items() if meter.of == "rank")


class TrainingValues:
    """The newest measures by meter, node and rank; empty while nothing trains."""

    def __init__(self) -> None:
        self.run = ""
        self._step = -1
        self._values: dict[str, dict[tuple[str, str], float]] = {}

    def begin(self, run: str) -> None:
        """Forget the previous run."""
        self.run, self._step, self._values = run, -1, {}

    def take(self, record: Record) -> None:
        """Use a record, if it is a measurement of a rank; ranks change when a generation starts."""
        match record:
            case GenerationStarted():
                self._values = {}
            case Measurement(name=name, labels={"rank": int(rank), "node": str(node), "step": int(step)}) if (
                name in MEASURED and step < STEPS
            ):
                self._step = step
                self._values.setdefault(name, {})[as_unicode(node), str(rank)] = record.value

    def step(self) -> int | None:
        """Return the newest step; None while nothing trains."""
        return self._step if self.run and self._step >= 0 else None

    def values(self) -> Mapping[str, Mapping[tuple[str, str], float]]:
        """Return the newest values by meter, node and rank."""
        return self._values


async def follow_trainings(values: TrainingValues, cluster: str) -> None:
    """Follow every training of a cluster that runs in this folder, one after another, until cancelled."""
    while True:
        if run := await asyncio.to_thread(_running, cluster):
            values.begin(run.id)
            await follow_training(values, runs_folder() / run.id)
            values.begin("")
        await asyncio.sleep(LOOK_SECONDS)


async def follow_training(values: TrainingValues, folder: Path) -> None:
    """Take what a training measures until it ends."""
    async with aclosing(follow(folder, GenerationStarted, Measurement, names=MEASURED)) as records:
        async for record in records:
            values.take(record)


def _running(cluster: str) -> RunSummary | None:
    """Return the newest training of a cluster that is still being written.

    Only the newest few are considered: a folder may have thousands of runs.
    """
    try:
        names = sorted((path.name for path in runs_folder().glob("*-train*")), reverse=True)
    except OSError:
        return None
    for name in names[:NEWEST]:
        run = read_run_in(runs_folder() / name)
        if run and (run.verb, run.cluster, run.status) == ("train", cluster, "running"):
            return run
    return None
