"""`railbed.bench`: what links, disks and collectives achieve, and whether that is good."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from railbed.api.clusters import ClusterLike, cluster_of, cluster_words
from railbed.api.exits import DEVICE, FOUND, OK
from railbed.api.reach import Confirm, Reach, confirming
from railbed.api.running import Invocation
from railbed.api.stored import Run, folder_of
from railbed.api.stream import RecordStream
from railbed.api.tally import Conclusion, Tally, conclude
from railbed.api.verbs.experiment import run_experiment
from railbed.bench import baseline as baselines
from railbed.bench import experiments, suites
from railbed.bench.compare.run import Ongoing
from railbed.bench.compare.visits import RUNS, is_first_visit, read_first_visit
from railbed.bench.run import BenchRequest
from railbed.bench.run import bench as bench_nodes
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.present.wording import DEFAULT_CLUSTER
from railbed.store import RunKind, Store

FIRST_VISIT = RunKind(noun="first visit of an experiment", fits=is_first_visit, hint=RUNS)


def bench(
    cluster: ClusterLike = None,
    suite: str = "quick",
    *,
    experiment: str | None = None,
    second_visit: Run | str | os.PathLike[str] | None = None,
    baseline: str | os.PathLike[str] | None = None,
    confirm: Confirm | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Measure RDMA, TCP, disks and collectives between the nodes, and judge the results.

    Yields a measurement for each number, and at the end the findings about them.

    `suite` is a suite by name, or the path of a file. `experiment`, a name or a file, compares two arms, measured in
    turns, instead; `second_visit` is the run of a first visit, whose other arm is measured now. `baseline` is the file
    to judge by, which `save_baseline` writes; without it, the one beside the cluster file is used, if there is one.
    `confirm` is asked once before the arm of an experiment configures devices; without it, the changes are made.
    """
    reach, store = reach or Reach(), store or Store()
    if experiment is not None and second_visit is not None:
        raise UsageError("--experiment and --second-visit cannot be combined", hint="the run contains its experiment")
    site = cluster_of(cluster, reach, discovers=False)
    first = None if second_visit is None else read_first_visit(folder_of(second_visit, FIRST_VISIT, store), site)
    question = first.experiment if first else None if experiment is None else experiments.load(experiment)
    file = Path(baseline) if baseline is not None else _beside(cluster)
    request = BenchRequest(name=suite, suite=suites.load(suite), baseline=baselines.read(file) if file else None)
    ongoing = Ongoing()

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        if question is not None:
            name = first.name if first else experiment or ""
            return run_experiment(site, fleet, question, name, first, ongoing=ongoing, confirm=confirming(confirm))
        return bench_nodes(site, fleet, request)

    invocation = Invocation(
        verb="bench",
        cluster=site,
        work=work,
        decide=lambda tally: _conclude(tally, ongoing),
        closing=request.judge if question is None else ongoing.judge,
        changing=question is not None,
    )
    words = ["bench", suite] if question is None else ["bench", "--experiment", experiment or ""]
    words = ["bench", "--second-visit", first.run] if first else words
    return RecordStream(invocation, reach, store, [*words, *cluster_words(cluster)])


def save_baseline(run: Run, path: str | os.PathLike[str]) -> int:
    """Save the numbers of a run of `bench`, to judge later runs by; return how many measurements they are of."""
    measured = run.measurements()
    if not measured:
        return 0
    made = baselines.make_baseline(measured, cluster=run.summary.cluster, run=run.id, saved=time.time())
    baselines.write(Path(path), made)
    return len(made.measures)


def _beside(cluster: ClusterLike) -> Path | None:
    """Return the baseline of a cluster file; a cluster that has no file has none."""
    return None if isinstance(cluster, Cluster) else baselines.path_beside(Path(cluster or DEFAULT_CLUSTER))


def _conclude(tally: Tally, ongoing: Ongoing) -> Conclusion:
    """Decide the exit code: 3 if nothing was measured, 1 if the user did not agree to the changes."""
    if ongoing.declined:
        return Conclusion(FOUND, "nothing was changed, and nothing measured")
    conclusion = conclude(tally)
    return conclusion if conclusion.code != OK or tally.measured else Conclusion(DEVICE, "nothing was measured")
