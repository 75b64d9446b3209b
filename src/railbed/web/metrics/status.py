"""The state of sampling itself, and the newest measures of the ranks of a running training, from its records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from pathlib import Path

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from railbed import __version__
from railbed.model.cluster import Cluster, DeviceKind
from railbed.model.events import GenerationStarted
from railbed.model.meters import METERS
from railbed.model.record import Measurement, Record
from railbed.store import RunSummary, follow, read_run_in, runs_folder
from railbed.web.metrics.latest import Latest
from railbed.web.metrics.names import METRICS, PREFIX, as_unicode

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


UP = f"{PREFIX}_up"
SAMPLE_AGE = f"{PREFIX}_sample_age_seconds"
GAPS = f"{PREFIX}_sampling_gaps"
STEP = f"{PREFIX}_training_step"
BUILD = f"{PREFIX}_build_info"


def sampled_devices(cluster: Cluster) -> dict[str, DeviceKind]:
    """Return the kind of every device that can be sampled."""
    nodes: dict[str, DeviceKind] = dict.fromkeys(cluster.nodes, "node")
    return nodes | {name: "switch" for name, switch in cluster.switches.items() if switch.host}


class Status(Collector):
    """Collects what is not a sample of a device."""

    def __init__(self, cluster: Cluster, latest: Latest, training: TrainingValues) -> None:
        self._kinds = sampled_devices(cluster)
        self._latest = latest
        self._training = training
        self.gaps = dict.fromkeys(self._kinds, 0)
        """How often each device fell silent."""

    def collect(self) -> Iterator[Family]:
        """Yield the metrics."""
        build = Family(BUILD, "The version of railbed that reports.", "gauge")
        build.add_sample(BUILD, {"version": __version__}, 1)
        yield build
        yield from self._devices()
        yield from self._measures()

    def _devices(self) -> Iterator[Family]:
        up = Family(UP, "Whether a device is being sampled.", "gauge")
        age = Family(SAMPLE_AGE, "Time since the newest sample of a device.", "gauge")
        gaps = Family(GAPS, "Times that the samples of a device stopped.", "counter")
        for device, kind in self._kinds.items():
            labels = {"device": device, "kind": kind}
            up.add_sample(UP, labels, int(self._latest.is_up(device)))
            gaps.add_sample(f"{GAPS}_total", labels, self.gaps[device])
            if (seconds := self._latest.age(device)) is not None:
                age.add_sample(SAMPLE_AGE, labels, round(seconds, 3))
        yield from (up, age, gaps)

    def _measures(self) -> Iterator[Family]:
        step = Family(STEP, "The newest step of a running training.", "gauge")
        if (number := self._training.step()) is not None:
            step.add_sample(STEP, {"run": self._training.run}, number)
        yield step
        for meter, values in self._training.values().items():
            metric = METRICS[meter]
            family = Family(metric.family, metric.help, metric.kind)
            for (node, rank), value in values.items():
                family.add_sample(metric.name, {"node": node, "rank": rank}, value)
            yield family
